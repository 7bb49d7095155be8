//! What a chat template is rendered with.

use std::collections::BTreeMap;

use minijinja::Value;
use minijinja::value::ObjectRepr;

use crate::{Json, Tokenizer};

/// Messages, and the other variables that templates ask for.
///
/// A variable that is not given is undefined in the template. `add_generation_prompt` is false if it is not given.
#[derive(Clone, Debug)]
pub struct Chat {
    pub(crate) variables: BTreeMap<String, Value>,
    pub(crate) now: Option<i64>,
}

impl Chat {
    /// A chat of these messages: a list of records with `role`, `content` and whatever else the template knows.
    ///
    /// Fields that are null count as not given. What a model thought is there by the names `reasoning_content` and
    /// `thinking`, whichever of these or `reasoning` it was given by, for templates differ.
    pub fn new(messages: Json) -> Chat {
        let mut chat = Chat { variables: BTreeMap::new(), now: None };
        // As `transformers` has it: these two are none, not undefined.
        for name in ["tools", "documents"] {
            chat.variables.insert(name.into(), Value::from(()));
        }
        chat.variables.insert("messages".into(), usual(&messages.value()));
        chat.generation_prompt(false)
    }

    /// A chat of roles and texts.
    pub fn of(messages: &[(&str, &str)]) -> Chat {
        let records = messages.iter().map(|&(role, content)| {
            Value::from_pairs([("role", Value::from(role)), ("content", Value::from(content))])
        });
        let messages = Json::of(&records.collect::<Vec<Value>>());
        Chat::new(messages)
    }

    /// The functions that the model may call.
    #[must_use]
    pub fn tools(self, tools: Json) -> Chat {
        self.set("tools", tools)
    }

    /// The documents that the model shall answer from.
    #[must_use]
    pub fn documents(self, documents: Json) -> Chat {
        self.set("documents", documents)
    }

    /// Whether the text ends with what stands before an answer of the model.
    #[must_use]
    pub fn generation_prompt(self, yes: bool) -> Chat {
        self.set("add_generation_prompt", Json::from(yes))
    }

    /// The texts of the tokenizer's special tokens: `bos_token`, `eos_token` and others.
    #[must_use]
    pub fn tokens(mut self, tokenizer: &Tokenizer) -> Chat {
        for (name, text) in tokenizer.special_texts() {
            self.variables.insert(name.clone(), Value::from(text.as_str()));
        }
        self
    }

    /// Any other variable of the template.
    #[must_use]
    pub fn set(mut self, name: &str, value: Json) -> Chat {
        self.variables.insert(name.into(), value.value());
        self
    }

    /// The time for templates that write the date: seconds since 1970 of the local clock.
    #[must_use]
    pub fn now(mut self, seconds: i64) -> Chat {
        self.now = Some(seconds);
        self
    }
}

/// Messages as `transformers` gives them to templates.
fn usual(messages: &Value) -> Value {
    let Ok(list) = messages.try_iter() else { return messages.clone() };
    list.map(|message| {
        let Some(object) = message.as_object().filter(|o| o.repr() == ObjectRepr::Map) else {
            return message;
        };
        let fields = object.try_iter_pairs().into_iter().flatten().filter(|(_, value)| !value.is_none());
        let mut fields: Vec<(Value, Value)> = fields.collect();
        let named = |name: &str| fields.iter().position(|(key, _)| key.as_str() == Some(name));
        let thought = ["reasoning_content", "thinking", "reasoning"].into_iter().find_map(named);
        if let Some(thought) = thought.map(|at| fields[at].1.clone()) {
            let (thinking, content) = (named("thinking"), named("reasoning_content"));
            match content {
                Some(at) => fields[at].1 = thought.clone(),
                None => fields.push(("reasoning_content".into(), thought.clone())),
            }
            let first = thinking.map_or_else(|| ("thinking".into(), thought), |at| fields.remove(at));
            fields.insert(0, first);
        }
        Value::from_pairs(fields)
    })
    .collect()
}
