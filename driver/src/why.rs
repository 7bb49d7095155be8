//! Explanations of plans: `tenon opt --why`, `--why-not`.

use ir::source::Span;
use rewrites::{Report, Why, WhyNot};

use crate::library::Library;
use crate::{Failure, Front};

/// Why the steps that make a value, do an operation, or are of a kernel of that name, were chosen.
pub fn why<'r>(report: &'r Report, name: &str) -> Result<Why<'r>, Failure> {
    rewrites::why(report, name).ok_or_else(|| {
        let steps = || report.functions.iter().flat_map(|f| &f.regimes).flat_map(|r| &r.steps);
        let known = steps().flat_map(|s| {
            let also = s.also.iter().map(|(value, _)| value.as_str());
            [s.name.as_str(), s.value.as_str()].into_iter().chain(also)
        });
        Failure::Usage(format!(
            "--why: no step makes `{name}` or does it, or is of a kernel of that name{}",
            near(name, known)
        ))
    })
}

/// What became of a rule, all its instances taken together, in each function.
pub fn why_not<'r>(front: &Front, report: &'r Report, rule: &str) -> Result<WhyNot<'r>, Failure> {
    let rules = &front.module.rules;
    let text = |span: Span| front.sources.snippet(span);
    let named = rules.iter().filter(|r| r.name.name() == rule || text(r.span) == rule);
    let instances: Vec<String> = named.map(|r| format!("rule {}", r.name)).collect();
    if instances.is_empty() {
        let library = &Library::get().statuses;
        let text = if library.contains_key(rule) {
            format!("--why-not: the program has not the operators of rule `{rule}` of the library")
        } else {
            let known = rules.iter().map(|r| text(r.span)).chain(library.keys().map(String::as_str));
            format!("--why-not: there is no rule `{rule}`{}", near(rule, known))
        };
        return Err(Failure::Usage(text));
    }
    let is = |said: &str| {
        instances.iter().any(|i| said == i || said.strip_prefix(i).is_some_and(|s| s.starts_with(',')))
    };
    let place = |span: Span| {
        let (line, _) = front.sources.line_col(span);
        format!("{}:{line}", front.sources.get(span.file).name)
    };
    Ok(rewrites::why_not(report, &is, &place))
}

fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    ir::diag::nearest(name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
