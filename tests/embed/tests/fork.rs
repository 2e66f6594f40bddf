//! A process that was forked while a device ran: a clear error, and nothing that hangs. Alone in its program, since a
//! fork copies no other thread.
#![cfg(unix)]

use systole::Config;
use systole_embed::{Arena, Backend, Line};

const AT: Line<'static> = Line { file: "train.py", line: 7 };

/// What a child found, as its exit status.
const ERROR_AS_DOCUMENTED: i32 = 10;
const WORKED: i32 = 11;
const OTHER_ERROR: i32 = 12;

/// Forks, runs `body` in the child and gives the child's exit status.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body` and leaves by `_exit`, so it never returns into the test harness, whose threads it
    // does not have; no lock of this program's is held while forking, as this is its only test and the device is idle.
    match unsafe { libc::fork() } {
        -1 => panic!("no process to fork"),
        0 => {
            let status = body();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child just made; `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "the child ended by a signal: {status}");
            libc::WEXITSTATUS(status)
        }
    }
}

fn compute(backend: &Backend) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let arena = Arena::new(vec![1.0, 2.0]);
    let x = backend.share(arena.part(0..2), &[2])?;
    let sum = backend.call("aten::add", &[&x, &x], &[], AT)?;
    Ok(sum.read()?.floats().to_vec())
}

#[test]
fn a_child_is_told_and_never_hangs() {
    let open = || Backend::open_with(Config { threads: 1, ..Config::default() }).expect("the simulator opens");
    let started = open();
    assert_eq!(compute(&started).expect("the parent computes"), [2.0, 4.0]);
    started.device().synchronize().expect("nothing failed");
    let status = in_child(|| match compute(&started) {
        Err(error) if error.to_string().contains("this process was forked") => {
            // Neither does letting go of it hang, nor a device opened here.
            drop(started.clone());
            let fresh = compute(&open()).is_ok_and(|values| values == [2.0, 4.0]);
            if fresh { ERROR_AS_DOCUMENTED } else { OTHER_ERROR }
        }
        Err(_) => OTHER_ERROR,
        Ok(_) => WORKED,
    });
    assert_eq!(status, ERROR_AS_DOCUMENTED);
    // Opening starts nothing: a device that has not run anything goes through a fork unharmed.
    let unused = open();
    assert_eq!(in_child(|| if compute(&unused).is_ok() { WORKED } else { OTHER_ERROR }), WORKED);
    assert_eq!(compute(&unused).expect("and the parent's copy computes"), [2.0, 4.0]);
    // The parent's device has noticed nothing.
    assert_eq!(compute(&started).expect("the parent computes"), [2.0, 4.0]);
}
