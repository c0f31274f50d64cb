//! Answers sorted by the thing in dispute.

use std::collections::BTreeMap;
use std::fmt;

use super::order::Answer;

/// All answers about one thing.
#[derive(Default)]
pub(crate) struct Answers(Vec<Answer>);

impl Answers {
    /// Answers by thing; every one of them was spoken about.
    pub(crate) fn by_item(answers: Vec<Answer>, items: usize) -> BTreeMap<usize, Answers> {
        let mut sorted: BTreeMap<usize, Answers> = BTreeMap::new();
        for answer in answers {
            sorted.entry(answer.item).or_default().0.push(answer);
        }
        assert_eq!(sorted.len(), items, "every item was answered");
        sorted
    }

    /// Whether every answer to a verb is one of these words.
    pub(crate) fn all(&self, verb: &str, words: &[&str]) -> bool {
        let mut of_verb = self.0.iter().filter(|answer| answer.verb == verb);
        of_verb.all(|answer| words.contains(&answer.word.as_str()))
    }

    /// How many answers to a verb are this word.
    pub(crate) fn count(&self, verb: &str, word: &str) -> usize {
        self.0
            .iter()
            .filter(|answer| answer.verb == verb && answer.word == word)
            .count()
    }

    /// The job named by the one answer with this word, if there is one; two are a violation.
    pub(crate) fn only(&self, verb: &str, word: &str) -> Option<String> {
        assert!(self.count(verb, word) <= 1, "two {verb} are {word}: {self:?}");
        let mut found = self
            .0
            .iter()
            .filter(|answer| answer.verb == verb && answer.word == word);
        found.next().map(|answer| answer.id.clone())
    }

    /// Whether every answer to a verb names one of these jobs.
    pub(crate) fn name_only(&self, verb: &str, ids: &[&str]) -> bool {
        let mut of_verb = self.0.iter().filter(|answer| answer.verb == verb);
        of_verb.all(|answer| ids.contains(&answer.id.as_str()))
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(ToString::to_string))
            .finish()
    }
}
