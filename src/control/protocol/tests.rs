use super::*;

fn back_and_forth<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn paths_of_any_bytes_survive() {
    for bytes in [&b""[..], b"a/b", b"caf\xc3\xa9 \"x\"\n", b"\xff\xfe/latin"] {
        let path = WirePath(bytes.to_vec());
        assert_eq!(back_and_forth(&path), path);
    }
    assert_eq!(serde_json::to_string(&WirePath(b"a".to_vec())).unwrap(), "\"a\"");
}

#[test]
fn a_request_is_flat_and_forgiving() {
    let line = r#"{"v":1,"id":7,"call":"flush","paths":["a"],"from_the_future":true}"#;
    let request: Request = serde_json::from_str(line).unwrap();
    assert_eq!(request.id, 7);
    assert_eq!(request.call, Call::Flush { paths: vec![WirePath(b"a".to_vec())], timeout_ms: None });
    let line = r#"{"v":1,"id":1,"call":"list","path":"d","limit":10}"#;
    let request: Request = serde_json::from_str(line).unwrap();
    assert!(matches!(request.call, Call::List(query) if query.limit == 10));
}

#[test]
fn answers_keep_their_shape() {
    let answer = Answer { v: VERSION, id: 3, body: AnswerBody::Ok(serde_json::Value::Null) };
    assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"v":1,"id":3,"ok":null}"#);
    let line = r#"{"v":2,"id":3,"error":{"code":"melted","message":"no"}}"#;
    let answer: Answer = serde_json::from_str(line).unwrap();
    assert!(matches!(answer.body, AnswerBody::Error(error) if error.code == ErrorCode::Failed));
}

#[test]
fn every_state_has_its_json_word() {
    for state in [RowState::Blocked, RowState::Writing, RowState::Moving, RowState::Dirty, RowState::Clean] {
        assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{}\"", state.word()));
        assert_eq!(RowState::from_word(state.word()), Some(state));
    }
}
