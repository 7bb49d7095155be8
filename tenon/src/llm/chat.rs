//! A conversation with a model.
//!
//! Each turn the whole conversation is written by the model's template. Of that, what the sequence has already is not
//! computed again.

#![expect(clippy::disallowed_methods, reason = "templates may write the date")]

use std::time::{SystemTime, UNIX_EPOCH};

use text::{Chat as Turns, Json};

use super::engine::SequenceId;
use super::generate::{Generated, Request};
use super::model::Model;
use crate::Error;

/// A conversation.
#[derive(Debug)]
pub struct Chat<'m> {
    model: &'m Model,
    turns: Vec<(String, String)>,
    sequence: Option<SequenceId>,
    /// The tokens that the sequence has.
    tokens: Vec<u32>,
}

impl Drop for Chat<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.sequence {
            self.model.engine().end(id);
        }
    }
}

impl<'m> Chat<'m> {
    /// A conversation in which nothing was said.
    pub fn new(model: &'m Model) -> Chat<'m> {
        Chat { model, turns: Vec::new(), sequence: None, tokens: Vec::new() }
    }

    /// Begins with what the model is to be.
    pub fn system(mut self, text: &str) -> Chat<'m> {
        self.set_system(text);
        self
    }

    /// Says what the model is to be, from now on.
    pub fn set_system(&mut self, text: &str) {
        self.turns.retain(|t| t.0 != "system");
        if !text.is_empty() {
            self.turns.insert(0, ("system".to_owned(), text.to_owned()));
        }
    }

    /// What was said, with who said it.
    pub fn turns(&self) -> &[(String, String)] {
        &self.turns
    }

    /// Forgets what was said, but not what the model is to be.
    pub fn clear(&mut self) {
        self.turns.retain(|t| t.0 == "system");
    }

    /// Says something, and lets the model answer. Where it fails, nothing was said.
    pub fn say(
        &mut self,
        text: &str,
        request: &Request,
        said: &mut dyn FnMut(&str),
    ) -> Result<Generated, Error> {
        self.turns.push(("user".to_owned(), text.to_owned()));
        let answer = self.answer(request, said);
        match &answer {
            Ok(a) => self.turns.push(("assistant".to_owned(), a.text.clone())),
            Err(_) => {
                self.turns.pop();
            }
        }
        answer
    }

    fn answer(&mut self, request: &Request, said: &mut dyn FnMut(&str)) -> Result<Generated, Error> {
        let prompt = prompt(self.model, &self.turns)?;
        // At least one row is computed, for its logits.
        let shared = self.tokens.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let mut engine = self.model.engine();
        let id = match self.sequence {
            Some(id) => id,
            None => engine.begin_with(&prompt)?,
        };
        let length = match self.sequence {
            Some(id) => engine.rewind(id, shared.min(prompt.len().saturating_sub(1)))?,
            None => engine.length(id),
        };
        drop(engine);
        self.tokens = prompt[..length].to_vec();
        self.sequence = Some(id);
        let rest = prompt[self.tokens.len()..].to_vec();
        let made = self.model.extend(id, &mut self.tokens, &rest, request, said);
        // What was computed before it failed counts.
        let length = self.model.engine().length(id);
        if self.tokens.len() != length {
            self.model.engine().end(id);
            self.sequence = None;
            self.tokens.clear();
        }
        made
    }
}

/// The tokens of a conversation, up to where the model answers.
pub(crate) fn prompt(model: &Model, turns: &[(String, String)]) -> Result<Vec<u32>, Error> {
    let fault = |e: text::Error| Error::message("E0604", format!("{}: {e}", model.path().display()));
    let tokenizer = model.tokenizer()?;
    let messages: Vec<serde_json::Value> =
        turns.iter().map(|(role, content)| serde_json::json!({ "role": role, "content": content })).collect();
    // By the clock of the world: which zone this machine is in is not asked.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    let messages = Json::from(&serde_json::Value::Array(messages));
    let chat = Turns::new(messages).generation_prompt(true).tokens(tokenizer).now(now);
    let text = model.template()?.render(&chat).map_err(fault)?;
    // The template writes what begins a text itself.
    tokenizer.encode(&text, true, false).map_err(fault)
}
