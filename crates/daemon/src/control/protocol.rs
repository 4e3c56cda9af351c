//! The protocol of the control socket: one JSON object per line, in both directions.
//!
//! `{"version":1,"request":"status"}` is answered by `{"version":1,"ok":true,"result":{...}}` or
//! `{"version":1,"ok":false,"error":"..."}`; after `watch` the daemon also sends one line for each launch.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The protocol version: raised when a request or an answer changes its meaning.
pub const VERSION: u32 = 1;
/// The longest line that a client may send.
pub const MAXIMUM_LINE_BYTES: usize = 4096;
/// The longest name of an application; a longer one is refused.
pub const MAXIMUM_NAME_BYTES: usize = 256;
/// The most processes that can be in the foreground at once.
const MAXIMUM_PIDS: usize = 256;

/// A line from a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// [`VERSION`].
    pub version: u32,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// A request from a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// The daemon's status.
    Status,
    /// The counters as OpenMetrics text.
    Metrics,
    /// An application starts now.
    Launch {
        /// Its name, under which the launch duration is learned.
        application: String,
        /// Its process, if it is known already.
        #[serde(default)]
        pid: Option<u32>,
    },
    /// The announced launch is over: the application shows its first screen.
    LaunchFinished {
        /// The name that was announced.
        application: String,
    },
    /// These processes are in the foreground now.
    Foreground {
        /// Their process ids.
        pids: Vec<u32>,
    },
    /// The class of every thread, and how background work is deprioritised.
    Placement,
    /// Reload the configuration.
    Reload,
    /// Send every launch from now on.
    Watch,
}

/// Parses one line. The fuzzer drives this parser.
///
/// # Errors
/// What is wrong with the line, for the client.
pub fn parse(line: &[u8]) -> Result<Request, String> {
    if line.len() > MAXIMUM_LINE_BYTES {
        return Err(format!("a request has at most {MAXIMUM_LINE_BYTES} bytes"));
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("not a JSON object: {error}"))?;
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(format!("version {version} is not spoken here, only {VERSION}")),
        None => return Err(format!("\"version\" is missing; this is version {VERSION}")),
    }
    let request = serde_json::from_value(value).map_err(|error| error.to_string())?;
    match &request {
        Request::Launch { application, .. } | Request::LaunchFinished { application } => check_name(application)?,
        Request::Foreground { pids } if pids.len() > MAXIMUM_PIDS => {
            return Err(format!("at most {MAXIMUM_PIDS} processes can be in the foreground"));
        }
        _ => {}
    }
    Ok(request)
}

fn check_name(application: &str) -> Result<(), String> {
    if application.is_empty() || application.len() > MAXIMUM_NAME_BYTES {
        return Err(format!("\"application\" has 1 to {MAXIMUM_NAME_BYTES} bytes"));
    }
    if application.chars().any(char::is_control) {
        return Err("\"application\" has no control characters".to_owned());
    }
    Ok(())
}

/// The line of a successful answer.
pub fn answer(result: &Value) -> String {
    format!("{{\"version\":{VERSION},\"ok\":true,\"result\":{result}}}\n")
}

/// The line of an error answer.
pub fn refusal(error: &str) -> String {
    format!("{{\"version\":{VERSION},\"ok\":false,\"error\":{}}}\n", Value::from(error))
}

/// Parses an answer: the result, or the daemon's error.
///
/// # Errors
/// The text of a refusal, or what is wrong with the line.
pub fn parse_answer(line: &str) -> Result<Value, String> {
    let mut value: Value =
        serde_json::from_slice(line.as_bytes()).map_err(|error| format!("the daemon's answer: {error}"))?;
    match value.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok(value["result"].take()),
        Some(false) => Err(value["error"].as_str().unwrap_or("refused without a reason").to_owned()),
        None => Err("the daemon's answer has no \"ok\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read() {
        let cases = [
            (r#"{"version":1,"request":"status"}"#, Request::Status),
            (r#"{"request":"reload","version":1,"unknown":[]}"#, Request::Reload),
            (
                r#"{"version":1,"request":"launch","application":"browser","pid":7}"#,
                Request::Launch { application: "browser".to_owned(), pid: Some(7) },
            ),
            (
                r#"{"version":1,"request":"launch","application":"browser"}"#,
                Request::Launch { application: "browser".to_owned(), pid: None },
            ),
            (r#"{"version":1,"request":"foreground","pids":[1,2]}"#, Request::Foreground { pids: vec![1, 2] }),
        ];
        for (line, request) in cases {
            assert_eq!(parse(line.as_bytes()), Ok(request), "{line}");
        }
    }

    #[test]
    fn an_invalid_request_is_refused_with_the_reason() {
        let long = format!(r#"{{"version":1,"request":"launch","application":"{}"}}"#, "x".repeat(257));
        let cases = [
            ("", "not a JSON object"),
            ("status", "not a JSON object"),
            ("[1]", "\"version\" is missing"),
            (r#"{"request":"status"}"#, "\"version\" is missing"),
            (r#"{"version":2,"request":"status"}"#, "version 2 is not spoken here, only 1"),
            (r#"{"version":1}"#, "missing field `request`"),
            (r#"{"version":1,"request":"explode"}"#, "unknown variant `explode`"),
            (r#"{"version":1,"request":"launch"}"#, "missing field `application`"),
            (r#"{"version":1,"request":"launch","application":""}"#, "1 to 256 bytes"),
            (r#"{"version":1,"request":"launch","application":"a\u001bb"}"#, "no control characters"),
            (&long, "1 to 256 bytes"),
        ];
        for (line, message) in cases {
            let error = parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(message), "{line}: {error}");
        }
        assert!(parse(&[b' '; MAXIMUM_LINE_BYTES + 1]).unwrap_err().contains("at most 4096 bytes"));
        assert!(parse(b"\xff\xfe").is_err());
    }

    #[test]
    fn answers_and_errors_survive_a_round_trip() {
        assert_eq!(parse_answer(&answer(&Value::from(7))), Ok(Value::from(7)));
        assert_eq!(parse_answer(&refusal("a \"reason\"\n")), Err("a \"reason\"\n".to_owned()));
        assert_eq!(answer(&Value::Null).matches('\n').count(), 1);
        assert_eq!(refusal("two\nlines").matches('\n').count(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,100}") {
            let _ = parse(&bytes);
            let _ = parse_answer(&text);
        }
    }
}
