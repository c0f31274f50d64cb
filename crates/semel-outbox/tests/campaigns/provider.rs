//! The world outside, in a process that is not killed: a payment provider that honours keys, and a letter box. Its books
//! are the independent log of effects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What happened outside.
#[derive(Default)]
pub struct Books {
    /// Charges by key: the order, and how often it was asked for.
    pub charges: HashMap<String, (String, usize)>,
    /// Requests with the key of another order.
    pub mixed_up: usize,
    /// Effects that were confirmed, by order and name: the delivery that knew it first.
    pub confirmed: HashMap<(String, String), Delivery>,
    /// Effects that a later delivery began all the same.
    pub too_late: usize,
    /// Letters begun, by order.
    pub letters: HashMap<String, usize>,
    /// Things asked for so far: `charge` and `letter` alike.
    pub asked: u64,
}

/// A job and its fence.
type Delivery = (String, i64);

/// A provider at work.
#[derive(Clone, Default)]
pub struct Provider {
    pub books: Arc<Mutex<Books>>,
}

impl Provider {
    /// Listens on a port of its own; says where.
    pub async fn open(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let provider = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(provider.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, stream: TcpStream) {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        while lines.read_line(&mut line).await.is_ok_and(|read| read > 0) {
            self.note(line.trim_end());
            // A moment in which the effect has happened and nobody knows.
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            if lines.write_all(b"done\n").await.is_err() {
                return;
            }
            line.clear();
        }
    }

    fn note(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut books = self.books.lock().unwrap();
        match words[..] {
            ["charge", job, fence, order, key] => {
                books.begin("charge", order, (job, fence));
                let charge = books
                    .charges
                    .entry(key.to_owned())
                    .or_insert_with(|| (order.to_owned(), 0));
                charge.1 += 1;
                let same = charge.0 == order;
                books.mixed_up += usize::from(!same);
            }
            ["letter", job, fence, order] => {
                books.begin("letter", order, (job, fence));
                *books.letters.entry(order.to_owned()).or_default() += 1;
            }
            ["confirmed", job, fence, order, effect] => {
                let which = (order.to_owned(), effect.to_owned());
                let delivery = (job.to_owned(), fence.parse().unwrap());
                books.confirmed.entry(which).or_insert(delivery);
            }
            _ => panic!("the provider does not know {line:?}"),
        }
    }
}

impl Books {
    /// Somebody asks for an effect. An older delivery of the same job may have been slow; everybody else had to know.
    fn begin(&mut self, effect: &str, order: &str, (job, fence): (&str, &str)) {
        self.asked += 1;
        let which = (order.to_owned(), effect.to_owned());
        let fence: i64 = fence.parse().unwrap();
        if let Some((knew, since)) = self.confirmed.get(&which) {
            self.too_late += usize::from(knew != job || fence >= *since);
        }
    }
}

/// Asks the provider for something and waits until it says that it is done.
pub async fn ask(address: &str, what: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.write_all(format!("{what}\n").as_bytes()).await?;
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(std::io::Error::other("the provider hung up")),
        _ => Ok(()),
    }
}
