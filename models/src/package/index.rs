//! Where an index has a wheel: the simple repository API of Python packages, as JSON or as a page of links.

use crate::error::{Error, Result};

/// What is asked for: JSON (PEP 691) where the index has it, else a page (PEP 503), which mirrors may serve alone.
pub(super) const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";

/// The address of a project's page.
pub(super) fn page_of(index: &str, project: &str) -> String {
    format!("{}/{project}/", index.trim_end_matches('/'))
}

/// The address of the file `wheel` that the project's page at `address` names.
pub(super) fn locate(page: &str, address: &str, wheel: &str) -> Result<String> {
    let listed = match serde_json::from_str::<serde_json::Value>(page) {
        Ok(page) => page["files"]
            .as_array()
            .and_then(|files| files.iter().find(|file| file["filename"] == wheel))
            .and_then(|file| file["url"].as_str().map(str::to_owned)),
        Err(_) => links(page).find(|link| file_name(link) == wheel),
    };
    let link = listed.ok_or_else(|| Error::fetch(format!("{} lists no {wheel}", public(address))))?;
    let link = link.split('#').next().unwrap_or_default();
    Ok(resolve(address, link))
}

/// An address as it may be printed: without a user's name and password.
pub(super) fn public(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let host = rest.split('/').next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        None => address.to_owned(),
    }
}

/// The targets of a page's links.
fn links(page: &str) -> impl Iterator<Item = String> {
    page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (target, _) = rest[1..].split_once(quote)?;
        Some(target.replace("&amp;", "&"))
    })
}

fn file_name(link: &str) -> &str {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// A link as a page at `address` means it.
fn resolve(address: &str, link: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
    if let Some(other_host) = link.strip_prefix("//") {
        return format!("{scheme}://{other_host}");
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut folders: Vec<&str> = Vec::new();
    if !link.starts_with('/') {
        folders.extend(path.split('/'));
        folders.pop();
    }
    for part in link.trim_start_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                folders.pop();
            }
            part => folders.push(part),
        }
    }
    format!("{scheme}://{host}/{}", folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "https://index.example/simple/weights/";

    #[test]
    fn json_names_the_file() {
        let page = r#"{"files": [
            {"filename": "weights-1.tar.gz", "url": "https://files.example/weights-1.tar.gz"},
            {"filename": "weights-1.whl", "url": "https://files.example/a/weights-1.whl"}]}"#;
        assert_eq!(locate(page, ADDRESS, "weights-1.whl").unwrap(), "https://files.example/a/weights-1.whl");
    }

    #[test]
    fn links_are_resolved_against_the_page() {
        let check = |link: &str, expected: &str| {
            let page = format!("<html><a href='other.whl'>x</a> <a href=\"{link}#sha256=00\">weights</a></html>");
            assert_eq!(locate(&page, ADDRESS, "w.whl").unwrap(), expected);
        };
        check("w.whl", "https://index.example/simple/weights/w.whl");
        check("../../files/w.whl", "https://index.example/files/w.whl");
        check("/files/w.whl", "https://index.example/files/w.whl");
        check("//other.example/w.whl", "https://other.example/w.whl");
        check("http://other.example/w.whl?a=1&amp;b=2", "http://other.example/w.whl?a=1&b=2");
    }

    #[test]
    fn passwords_are_not_printed() {
        assert_eq!(public("https://me:secret@index.example/a@b"), "https://index.example/a@b");
        assert_eq!(public("https://index.example/a@b"), "https://index.example/a@b");
    }

    #[test]
    fn a_page_without_the_file_is_an_error() {
        let error = locate("{\"files\": []}", ADDRESS, "w.whl").unwrap_err();
        assert!(error.is_fetch_error());
        assert_eq!(error.to_string(), "https://index.example/simple/weights/ lists no w.whl");
    }
}
