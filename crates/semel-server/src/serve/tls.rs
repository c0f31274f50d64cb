//! Certificate and key from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a certificate chain and its key; says what is wrong with which file.
pub fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let in_file = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| in_file(certificate, &error))?;
    if chain.is_empty() {
        return Err(in_file(certificate, &"there is no certificate in it"));
    }
    let key_read = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_read))
        .map_err(|error| in_file(certificate, &error))?;
    Ok(Arc::new(config))
}
