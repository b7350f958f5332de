//! Splits a glob into its alternatives (`{a,b}`) and those into segments, honouring escapes and classes.

/// More alternatives than this is a mistake, or an attempt at our memory.
const MAX_ALTERNATIVES: usize = 64;

/// One alternative: the segments between its slashes.
pub(super) type Alternative = Vec<String>;

/// A piece of a glob: a character that may have structure (`{`, `,`, `}`, `/`), or text that has none.
#[derive(Clone, Debug)]
enum Token {
    Plain(char),
    /// An escaped character or a whole class, as written.
    Quoted(String),
}

/// The alternatives of `glob`, each split at its slashes.
pub(super) fn alternatives(glob: &str) -> Result<Vec<Alternative>, String> {
    let mut found = Vec::new();
    expand(&tokens(glob)?, &mut found)?;
    Ok(found.iter().map(|tokens| segments(tokens)).collect())
}

fn tokens(glob: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' => escape_length(rest)?,
            '[' => class_length(rest)?,
            _ => first.len_utf8(),
        };
        let (text, after) = rest.split_at(length);
        tokens.push(match first {
            '\\' | '[' => Token::Quoted(text.to_owned()),
            plain => Token::Plain(plain),
        });
        rest = after;
    }
    Ok(tokens)
}

fn escape_length(rest: &str) -> Result<usize, String> {
    match rest[1..].chars().next() {
        None => Err("ends with a lone `\\`; write `\\\\` for a backslash".into()),
        Some('/') => Err("`\\/` escapes a slash, which no name has; write `/`".into()),
        Some(escaped) => Ok(1 + escaped.len_utf8()),
    }
}

fn class_length(rest: &str) -> Result<usize, String> {
    let unclosed = || "`[` without `]`; write `[[]` for the character itself".to_owned();
    let negated = usize::from(rest[1..].starts_with(['!', '^']));
    // A `]` right after the opening is a member of the class.
    let mut at = 1 + negated + usize::from(rest[1 + negated..].starts_with(']'));
    while !rest[at..].starts_with(']') {
        let here = &rest[at..];
        let named = here.strip_prefix("[:").and_then(|after| after.find(":]"));
        at += match named {
            Some(length) => length + 4,
            None => here.chars().next().ok_or_else(unclosed)?.len_utf8(),
        };
    }
    if rest[..at].contains('/') {
        return Err("a class can't hold `/`: it matches within one name".into());
    }
    Ok(at + 1)
}

fn expand(tokens: &[Token], found: &mut Vec<Vec<Token>>) -> Result<(), String> {
    let Some(open) = tokens.iter().position(|token| matches!(token, Token::Plain('{' | '}'))) else {
        if found.len() == MAX_ALTERNATIVES {
            return Err(format!("more than {MAX_ALTERNATIVES} alternatives; split it into several rules"));
        }
        found.push(tokens.to_vec());
        return Ok(());
    };
    if matches!(tokens[open], Token::Plain('}')) {
        return Err("`}` without `{`; write `[}]` for the character itself".into());
    }
    let (choices, close) = choices(tokens, open)?;
    for choice in choices {
        expand(&[&tokens[..open], choice, &tokens[close + 1..]].concat(), found)?;
    }
    Ok(())
}

/// What stands between the commas of the brace at `open`, and where it closes.
fn choices(tokens: &[Token], open: usize) -> Result<(Vec<&[Token]>, usize), String> {
    let (mut depth, mut start, mut choices) = (0, open + 1, Vec::new());
    for (at, token) in tokens.iter().enumerate().skip(open) {
        let ends_choice = match token {
            Token::Plain('{') => {
                depth += 1;
                false
            }
            Token::Plain('}') => {
                depth -= 1;
                depth == 0
            }
            Token::Plain(',') => depth == 1,
            _ => false,
        };
        if ends_choice {
            choices.push(&tokens[start..at]);
            start = at + 1;
        }
        if depth == 0 {
            return Ok((choices, at));
        }
    }
    Err("`{` without `}`; write `[{]` for the character itself".into())
}

fn segments(tokens: &[Token]) -> Alternative {
    let mut segments = vec![String::new()];
    for token in tokens {
        match (token, segments.last_mut()) {
            (Token::Plain('/'), _) | (_, None) => segments.push(String::new()),
            (Token::Plain(plain), Some(last)) => last.push(*plain),
            (Token::Quoted(text), Some(last)) => last.push_str(text),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(glob: &str) -> Result<Vec<String>, String> {
        Ok(alternatives(glob)?.iter().map(|segments| segments.join("|")).collect())
    }

    #[test]
    fn braces_multiply_and_nest() {
        assert_eq!(joined("a/{b,c/{d,e}}/*.{x,y}").unwrap().len(), 6);
        assert_eq!(joined("{a/b,c}/**").unwrap(), ["a|b|**", "c|**"]);
        assert_eq!(joined("a{,.txt}").unwrap(), ["a", "a.txt"]);
    }

    #[test]
    fn escapes_and_classes_have_no_structure() {
        assert_eq!(joined(r"\{a,b\}/[{,}]").unwrap(), [r"\{a,b\}|[{,}]"]);
        assert_eq!(joined("[]]x/[!]]/[[:alpha:]]").unwrap(), ["[]]x|[!]]|[[:alpha:]]"]);
    }

    #[test]
    fn what_does_not_close_is_told() {
        for bad in ["{a", "a}", "[a", "[]", "[[:alpha:]", r"a\", r"a\/b", "[a/b]", "{a,[b}"] {
            assert!(joined(bad).is_err(), "{bad}");
        }
        assert!(joined(&"{a,b}".repeat(7)).is_err());
    }
}
