//! Chat templates: messages into the text that a model was trained on.
//!
//! They are Jinja as `transformers` renders it: blocks take the line break behind them and the blanks before them,
//! loops know `break` and `continue`, values have the methods of Python's, and are written as Python writes them.
//!
//! A template comes with a model, from anyone. Its work and memory are limited, so that it can do no harm.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::Map;

use crate::{Chat, Error, guard, python};

/// What a template may do beside what its input asks for: a step or 64 bytes of text are one each.
const FUEL: u64 = 1_000_000;

/// The longest template that is read.
const MAX_TEXT: usize = 1 << 20;

const NAME: &str = "chat";

/// A chat template, ready to be rendered.
#[derive(Clone, Debug)]
pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    /// Reads a template.
    pub fn new(text: &str) -> Result<Template, Error> {
        if text.len() > MAX_TEXT {
            return Err(Error::Template(format!("it has {} bytes, the most are {MAX_TEXT}", text.len())));
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| wrong(&e))?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        python::install(&mut environment);
        let text = guard::rewrite(text).map_err(Error::Template)?;
        environment.add_template_owned(NAME, text).map_err(|e| wrong(&e))?;
        Ok(Template { environment })
    }

    /// The template in a `tokenizer_config.json`.
    ///
    /// `chat_template` is its text, or a list of templates with names. Without a name, `default` is taken.
    pub fn from_config(config: &serde_json::Value, name: Option<&str>) -> Result<Template, Error> {
        let found = match config.get("chat_template") {
            None | Some(serde_json::Value::Null) => return Err(Error::NoTemplate),
            Some(serde_json::Value::String(text)) => return Template::new(text),
            Some(serde_json::Value::Array(list)) => list,
            Some(_) => return Err(Error::Template("chat_template is neither a text nor a list".into())),
        };
        let name = name.unwrap_or("default");
        let field = |entry: &'_ serde_json::Value, key: &str| entry.get(key)?.as_str().map(str::to_string);
        match found.iter().find(|t| field(t, "name").as_deref() == Some(name)).map(|t| field(t, "template")) {
            Some(Some(text)) => Template::new(&text),
            Some(None) => Err(Error::Template(format!("the template {name:?} has no text"))),
            None => {
                let mut names: Vec<String> = found.iter().filter_map(|t| field(t, "name")).collect();
                names.truncate(8);
                let names = if names.is_empty() { "none with a name".to_owned() } else { names.join(", ") };
                Err(Error::Template(format!("chat_template is a list without {name:?}; there are {names}")))
            }
        }
    }

    /// The template in the metadata of a GGUF file.
    pub fn from_gguf(metadata: &Map<String, serde_json::Value>) -> Result<Template, Error> {
        match metadata.get("tokenizer.chat_template") {
            Some(serde_json::Value::String(text)) => Template::new(text),
            Some(_) => Err(Error::Template("tokenizer.chat_template is not a text".into())),
            None => Err(Error::NoTemplate),
        }
    }

    /// The text of a chat.
    ///
    /// It has all special tokens that it needs. To be encoded, it wants `special` and no `add_bos_eos`.
    pub fn render(&self, chat: &Chat) -> Result<String, Error> {
        let mut environment = self.environment.clone();
        let size: u64 = chat.variables.values().map(python::size).sum();
        environment.set_fuel(Some(FUEL.saturating_add(size)));
        let mut variables = chat.variables.clone();
        let now = chat.now;
        let strftime = move |format: &str| python::strftime(format, now);
        variables.entry("strftime_now".into()).or_insert_with(|| Value::from_function(strftime));
        let template = environment.get_template(NAME).map_err(|e| wrong(&e))?;
        template.render(variables).map_err(|e| wrong(&e))
    }
}

/// An error of the library as one of ours, with the line.
fn wrong(error: &minijinja::Error) -> Error {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = source {
        if let Some(python::Raised(message)) = inner.downcast_ref() {
            return Error::Refused(message.clone());
        }
        source = inner.source();
    }
    let kind = error.kind();
    let mut text = error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"));
    if kind == ErrorKind::OutOfFuel {
        text = "it does more work than it may".into();
    }
    if let Some(line) = error.line() {
        text.push_str(&format!(" (line {line})"));
    }
    Error::Template(text)
}
