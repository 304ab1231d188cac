//! Fetching a metrics page from real sockets: well-behaved servers and others.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use touchstone_telemetry::scrape::{MAX_BYTES, ScrapeError, scrape};

/// Long enough for a loaded machine; no test waits for it.
const LIMIT: Duration = Duration::from_secs(30);

/// A server for one connection: gives its request, and answers with the pieces, one write each. With `keep` it leaves
/// the connection open until the client has gone.
fn serve(pieces: Vec<Vec<u8>>, keep: bool) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            request.push(byte[0]);
        }
        for piece in pieces {
            // A client that has read enough may be gone already.
            if stream.write_all(&piece).is_err() {
                break;
            }
        }
        if keep {
            drop(stream.read(&mut byte));
        }
        String::from_utf8(request).unwrap()
    });
    (url, thread)
}

fn bytes(pieces: &[&str]) -> Vec<Vec<u8>> {
    pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect()
}

#[test]
fn a_page_with_a_length_is_read_without_waiting_for_the_end() {
    let (url, server) =
        serve(bytes(&["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 8\r\n\r\na 1\n", "b 2\n"]), true);
    let page = scrape(&url, LIMIT).unwrap();
    assert_eq!((page.sum("a"), page.sum("b")), (Some(1.0), Some(2.0)));
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
}

#[test]
fn chunks_are_put_together_with_and_without_the_end_of_the_connection() {
    for keep in [false, true] {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let (url, server) =
            serve(bytes(&[head, "3;x=y\r\na 1\r\n", "A\r\n\nbb 2\nc 3 \r\n", "0\r\n\r\n"]), keep);
        let page = scrape(&format!("{url}/other?x=1"), LIMIT).unwrap();
        assert_eq!((page.sum("a"), page.sum("bb"), page.sum("c")), (Some(1.0), Some(2.0), Some(3.0)));
        assert!(server.join().unwrap().starts_with("GET /other?x=1 HTTP/1.1"));
    }
}

#[test]
fn a_page_that_ends_with_the_connection_is_read() {
    let (url, _server) = serve(bytes(&["HTTP/1.0 200 OK\r\n\r\na 1\n"]), false);
    assert_eq!(scrape(&url, LIMIT).unwrap().sum("a"), Some(1.0));
}

#[test]
fn answers_that_are_no_page_are_named() {
    let (url, _server) = serve(bytes(&["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]), false);
    assert!(matches!(scrape(&url, LIMIT), Err(ScrapeError::Status { status: 404, .. })));
    for answer in ["", "HTTP/1.1 200 OK\r\n", "-ERR unknown command\r\n\r\n"] {
        let (url, _server) = serve(bytes(&[answer]), false);
        assert!(matches!(scrape(&url, LIMIT), Err(ScrapeError::Malformed { .. })), "{answer}");
    }
    let (url, _server) = serve(bytes(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na 1\n"]), false);
    let error = scrape(&url, LIMIT).unwrap_err().to_string();
    assert!(error.ends_with("the body is not complete"), "{error}");
}

#[test]
fn an_endless_page_is_cut_off() {
    let mut pieces = bytes(&["HTTP/1.1 200 OK\r\n\r\n"]);
    pieces.extend(std::iter::repeat_n(b"a 1\n".repeat(1 << 18), MAX_BYTES / (1 << 20) + 2));
    let (url, _server) = serve(pieces, false);
    assert!(matches!(scrape(&url, LIMIT), Err(ScrapeError::TooLarge { .. })));
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let (url, _server) = serve(Vec::new(), true);
    let error = scrape(&url, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, ScrapeError::Timeout { .. }), "{error:?}");
}

#[test]
fn nobody_there_is_an_error_of_the_network() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = scrape(&format!("http://127.0.0.1:{port}"), LIMIT).unwrap_err();
    assert!(matches!(error, ScrapeError::Io { action: "connect to", .. }), "{error:?}");
}

#[test]
fn addresses_that_cannot_be_used_are_refused_without_their_credentials() {
    for url in [
        "https://user:secret@host/metrics",
        "http://user:secret@host/metrics",
        "ftp://secret",
        "user:secret@host",
        "http://user:sec/secret@h",
        "http://h:x/?secret",
    ] {
        let error = scrape(url, LIMIT).unwrap_err();
        assert!(matches!(error, ScrapeError::Url { .. }));
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    for url in [
        "http://",
        "http://:80/x",
        "http://host:99999/",
        "http://host:x/",
        "http://a b/",
        "http://h/a\r\nX: y",
    ] {
        assert!(matches!(scrape(url, LIMIT), Err(ScrapeError::Url { .. })), "{url}");
    }
}
