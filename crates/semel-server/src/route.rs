//! A route with all there is to know about it: where it is, who may, what it takes and gives.
//!
//! The router, the roles and the OpenAPI document are made from the same list, so none of them can know a route
//! the others do not.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::door;
use crate::role::Role;

/// Who may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody who reaches the server.
    Open,
    /// Whoever has a role.
    Needs(Role),
}

/// A schema by name, with all it refers to.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Where an answer or request refers to.
    pub reference: Value,
    /// Everything that has to stand among the components.
    pub parts: Vec<(String, Value)>,
}

impl Shape {
    fn of<T: ToSchema>() -> Self {
        let mut parts = Vec::new();
        T::schemas(&mut parts);
        parts.push((T::name().into_owned(), T::schema()));
        let as_json = |schema| serde_json::to_value(schema).unwrap_or_default();
        Shape {
            reference: json!({ "$ref": format!("#/components/schemas/{}", T::name()) }),
            parts: parts
                .into_iter()
                .map(|(name, schema)| (name, as_json(schema)))
                .collect(),
        }
    }

    /// A page of a list of these.
    fn list(self) -> Self {
        Shape {
            reference: json!({
                "type": "object",
                "required": ["items", "next_cursor"],
                "properties": {
                    "items": { "type": "array", "items": self.reference },
                    "next_cursor": { "type": ["string", "null"], "description": "Where the next page begins" },
                },
            }),
            parts: self.parts,
        }
    }
}

/// One route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with its variable parts in braces.
    pub path: &'static str,
    /// Who may.
    pub access: Access,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// The name of the call, for clients that are generated.
    pub operation: String,
    /// What can stand in the query string.
    pub query: Vec<Value>,
    /// What the body is.
    pub body: Option<Shape>,
    /// Whether the body may be left out.
    pub body_optional: bool,
    /// Header parameters.
    pub headers: Vec<(&'static str, &'static str)>,
    /// What it answers.
    pub answers: Vec<(u16, &'static str, Answer)>,
    /// Other types an answer can have, by its status.
    pub others: Vec<(u16, &'static str)>,
    /// What it refuses with, besides what every route does.
    pub refusals: Vec<(u16, &'static str)>,
    mount: MethodRouter<App>,
}

/// What an answer is.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Nothing.
    Empty,
    /// JSON.
    Json(Shape),
    /// Something else, by its type.
    Other(&'static str),
}

impl Route {
    fn new<H, T>(
        method: Method,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that routes can have");
        let mount = on(filter, handler);
        Route {
            operation: operation(std::any::type_name::<H>()),
            method,
            path,
            access,
            summary,
            query: Vec::new(),
            body: None,
            body_optional: false,
            headers: Vec::new(),
            answers: Vec::new(),
            others: Vec::new(),
            refusals: Vec::new(),
            mount,
        }
    }

    /// Takes a JSON body.
    pub fn takes<T: ToSchema>(mut self) -> Self {
        self.body = Some(Shape::of::<T>());
        self
    }

    /// Takes a JSON body that may be left out.
    pub fn may_take<T: ToSchema>(mut self) -> Self {
        self.body_optional = true;
        self.takes::<T>()
    }

    /// Takes a query string.
    pub fn asks<T: IntoParams>(mut self) -> Self {
        let parameters = T::into_params(|| Some(ParameterIn::Query));
        let as_json = |parameter| serde_json::to_value(parameter).unwrap_or_default();
        self.query.extend(parameters.into_iter().map(as_json));
        self
    }

    /// Takes a header.
    pub fn hears(mut self, name: &'static str, what: &'static str) -> Self {
        self.headers.push((name, what));
        self
    }

    /// Answers with JSON.
    pub fn gives<T: ToSchema>(mut self, status: u16, what: &'static str) -> Self {
        self.answers.push((status, what, Answer::Json(Shape::of::<T>())));
        self
    }

    /// Answers with a page of a list.
    pub fn lists<T: ToSchema>(mut self, what: &'static str) -> Self {
        self.answers
            .push((200, what, Answer::Json(Shape::of::<T>().list())));
        self
    }

    /// Answers with nothing but a status.
    pub fn ends(mut self, status: u16, what: &'static str) -> Self {
        self.answers.push((status, what, Answer::Empty));
        self
    }

    /// Answers with something that is no JSON.
    pub fn gives_other(mut self, content: &'static str, what: &'static str) -> Self {
        self.answers.push((200, what, Answer::Other(content)));
        self
    }

    /// Answers with another type, too, where that is asked for.
    pub fn or_gives(mut self, content: &'static str) -> Self {
        self.others.push((200, content));
        self
    }

    /// Refuses with these codes, besides what every route refuses with.
    pub fn refuses(mut self, codes: &[&'static str]) -> Self {
        let known = codes.iter().map(|word| crate::problem::Code::named(word));
        self.refusals.extend(known.map(|code| (code.status, code.word)));
        self
    }

    /// Hangs it into a router.
    pub fn mount(self, router: Router<App>) -> Router<App> {
        let mut mount = self.mount;
        // Of pages nobody knows what a link to them carries along.
        if self.query.is_empty() && self.path.starts_with("/v1/") {
            mount = mount.layer(from_fn(door::without_query));
        }
        if let Access::Needs(role) = self.access {
            mount = mount.layer(from_fn(move |request, next| door::allow(role, request, next)));
        }
        router.route(self.path, mount)
    }
}

macro_rules! verbs {
    ($($name:ident $method:ident),+) => {$(
        #[doc = concat!("A route by ", stringify!($method), ".")]
        pub fn $name<H, T>(path: &'static str, role: Role, summary: &'static str, handler: H) -> Route
        where
            H: Handler<T, App>,
            T: 'static,
        {
            Route::new(Method::$method, path, Access::Needs(role), summary, handler)
        }
    )+};
}

verbs!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

/// A route that anybody may GET.
pub fn open<H, T>(path: &'static str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    Route::new(Method::GET, path, Access::Open, summary, handler)
}

/// A route that anybody may POST to.
pub fn open_post<H, T>(path: &'static str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    Route::new(Method::POST, path, Access::Open, summary, handler)
}

/// `semel_server::api::jobs::cancel` is `jobs_cancel`.
fn operation(handler: &str) -> String {
    let plain = handler.split('<').next().unwrap_or(handler);
    let parts: Vec<&str> = plain.rsplitn(3, "::").collect();
    match parts.as_slice() {
        [verb, noun, ..] => format!("{noun}_{verb}"),
        _ => plain.to_owned(),
    }
}
