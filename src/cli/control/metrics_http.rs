//! `brisk status --http`: answers one HTTP request, for a socket that systemd or inetd listens on.
//!
//! The daemon itself has no network port. Prometheus needs GET of one path (RFC 9110, RFC 9112), and each connection is served by
//! a process of its own, so a request is read no further than its head.

use std::io::{BufRead, BufReader, Read, Write};

use brisk_report::open_metrics::CONTENT_TYPE;

/// A longer head is refused.
const MAX_HEAD_BYTES: u64 = 16 * 1024;
const PATH: &str = "/metrics";

/// What is answered: the status line after the version, the content type and the body.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn error(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() + "\n" }
    }
}

/// Reads a request from `input`, and writes the answer with the metrics that `fetch` returns to `output`.
///
/// # Errors
/// When the client cannot be read from or written to.
pub fn serve(
    input: impl Read,
    mut output: impl Write,
    fetch: impl FnOnce() -> anyhow::Result<String>,
) -> std::io::Result<()> {
    let Answer { status, content_type, body } = answer(&read_head(input)?, fetch);
    write!(
        output,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    output.flush()
}

/// The request's head, without the empty line that ends it. The rest is unread: a client may wait for the answer.
fn read_head(input: impl Read) -> std::io::Result<Vec<u8>> {
    let mut reader = BufReader::new(input.take(MAX_HEAD_BYTES));
    let mut head = Vec::new();
    loop {
        let begin = head.len();
        reader.read_until(b'\n', &mut head)?;
        if matches!(&head[begin..], b"" | b"\n" | b"\r\n") {
            return Ok(head);
        }
    }
}

fn answer(head: &[u8], fetch: impl FnOnce() -> anyhow::Result<String>) -> Answer {
    let is_whole = head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n");
    let line = head.split(|&byte| byte == b'\n').next().and_then(|line| str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().trim_end_matches('\r').split(' ').collect();
    let &[method, target, version] = &words[..] else {
        return Answer::error("400 Bad Request", "this is not an HTTP request");
    };
    if !is_whole || !version.starts_with("HTTP/1.") {
        return Answer::error("400 Bad Request", "this is not a whole request of HTTP/1");
    }
    if target.split('?').next() != Some(PATH) {
        return Answer::error("404 Not Found", format!("only {PATH} is here"));
    }
    if method != "GET" {
        return Answer::error("405 Method Not Allowed\r\nAllow: GET", "only GET is answered");
    }
    match fetch() {
        Ok(body) => Answer { status: "200 OK", content_type: CONTENT_TYPE, body },
        Err(error) => Answer::error("503 Service Unavailable", format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-4.
    #[test]
    fn answers_get_of_metrics_and_refuses_the_rest() {
        let long = format!("GET /metrics HTTP/1.1\r\nCookie: {}\r\n\r\n", "a".repeat(20_000));
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: device\r\n\r\n", "200 OK"),
            ("GET /metrics?name=brisk HTTP/1.0\n\n", "200 OK"),
            ("GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("GET /metrics/.. HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed\r\nAllow: GET"),
            ("GET /metrics HTTP/2.0\r\n\r\n", "400 Bad Request"),
            ("GET /metrics HTTP/1.1\r\nHost: dev", "400 Bad Request"),
            ("GET /metrics\r\n\r\n", "400 Bad Request"),
            ("\r\n", "400 Bad Request"),
            ("", "400 Bad Request"),
            (&long, "400 Bad Request"),
        ] {
            let mut output = Vec::new();
            serve(request.as_bytes(), &mut output, || Ok("# EOF\n".to_owned())).unwrap();
            let text = String::from_utf8(output).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{text}");
            assert_eq!(body == "# EOF\n", status == "200 OK", "{text}");
        }
        let mut output = Vec::new();
        let request = &b"GET /metrics HTTP/1.1\r\n\r\n\xff"[..];
        serve(request, &mut output, || anyhow::bail!("no daemon is running")).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("\r\n\r\nno daemon is running\n"), "{text}");
    }
}
