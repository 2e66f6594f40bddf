//! Calls that must fail, and what their errors say.

use std::fmt::Debug;
use std::panic::Location;

use expect_test::Expect;
use systole::{Error, Origin, Result};

/// Asserts that the error names the calling file and that line, and shows the rest of it.
#[track_caller]
pub(crate) fn refused_at(error: &Error, line: u32, expected: Expect) {
    let Origin::Caller(location) = error.origin() else { panic!("no place in {error:?}") };
    assert_eq!((location.file(), location.line()), (Location::caller().file(), line), "{error:?}");
    let text = error.to_string();
    let place = format!(" (at {location})");
    assert!(text.ends_with(&place), "{text}");
    expected.assert_eq(&text[..text.len() - place.len()]);
}

/// Checks the error of a call that was made on the line before.
#[track_caller]
pub(crate) fn refused<T: Debug>(result: Result<T>, expected: Expect) -> Error {
    let error = fails(result);
    refused_at(&error, Location::caller().line() - 1, expected);
    error
}

/// The error of a call that must fail.
#[track_caller]
pub(crate) fn fails<T: Debug>(result: Result<T>) -> Error {
    result.expect_err("this must fail")
}
