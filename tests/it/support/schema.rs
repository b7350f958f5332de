//! A strict reader of the part of JSON Schema that ours is written in. Stricter than the standard in one thing: a field that the
//! schema does not name is an error, for it would be undocumented.

use serde_json::Value;

/// All that is wrong with `value`, each with its place; a keyword that is not known here is a panic.
pub fn complaints(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$ref" => {
                let pointer =
                    rule.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference into itself");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
                found.extend(complaints(root, target, value, place));
            }
            "const" if rule != value => found.push(format!("{place}: {value} is not {rule}")),
            "enum" if !rule.as_array().expect("a list").contains(value) => {
                found.push(format!("{place}: {value} is none of {rule}"));
            }
            "type" if !is_of(rule, value) => found.push(format!("{place}: {value} is no {rule}")),
            "anyOf" => {
                let fits = |part: &Value| complaints(root, part, value, place).is_empty();
                if !rule.as_array().expect("a list").iter().any(fits) {
                    found.push(format!("{place}: {value} is none of what it may be"));
                }
            }
            "required" => {
                let names = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
                found.extend(
                    names.filter(|name| value.get(name).is_none()).map(|name| format!("{place}: no {name}")),
                );
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    let place = format!("{place}.{name}");
                    match rule.get(name) {
                        Some(schema) => found.extend(complaints(root, schema, field, &place)),
                        None => found.push(format!("{place} is not documented")),
                    }
                }
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(complaints(root, rule, item, &format!("{place}[{at}]")));
                }
            }
            "description" | "const" | "enum" | "type" => {}
            other => panic!("{other} is not known here"),
        }
    }
    found
}

fn is_of(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type here"),
    };
    match rule {
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        name => is(name.as_str().expect("a type")),
    }
}
