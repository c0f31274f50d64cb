//! Whether a connection is encrypted, and whom it trusts.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use semel_core::error::Invalid;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, While};

/// Whose signature under the certificate of a server is good.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trust<'a> {
    /// The authorities that this machine trusts.
    System,
    /// These only, as PEM.
    These(&'a [u8]),
}

/// Whether connections will be encrypted: with `sslmode=require`, and then the server has to prove who it is.
pub(super) fn is_encrypted(config: &Config) -> bool {
    config.get_ssl_mode() == SslMode::Require
}

/// What connections are made with. Where encryption is not required there is none: one that gives way to plain text
/// when the other side asks for it protects nothing.
pub(super) fn connector(config: &mut Config, trust: Trust<'_>) -> Result<MakeRustlsConnect, Error> {
    let mut trusted = RootCertStore::empty();
    match is_encrypted(config) {
        true => trusted = authorities(trust)?,
        false => drop(config.ssl_mode(SslMode::Disable)),
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .while_("preparing encryption")?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(tls))
}

fn authorities(trust: Trust<'_>) -> Result<RootCertStore, Error> {
    let mut trusted = RootCertStore::empty();
    match trust {
        Trust::System => {
            // One unreadable certificate among hundreds is no reason to refuse; none at all is.
            let found = rustls_native_certs::load_native_certs();
            trusted.add_parsable_certificates(found.certs);
        }
        Trust::These(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.while_("reading certificates")?;
                trusted.add(certificate).while_("reading certificates")?;
            }
        }
    }
    match trusted.is_empty() {
        false => Ok(trusted),
        true => Err(Invalid::new(
            "an encrypted connection",
            "one certificate of an authority at least",
        )
        .hint("install ca-certificates, or set SSL_CERT_FILE")
        .into()),
    }
}
