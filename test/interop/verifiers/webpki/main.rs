//! ztunnel as a judge of leaves under intermediates: its parser, its verifier and its settings.
//! It reads one question a line, as JSON, and writes one answer a line.

use std::io::{BufRead, Write, stdin, stdout};

use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};
use serde_json::{Value, json};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

fn main() {
    let mut answers = stdout().lock();
    for line in stdin().lock().lines() {
        let fault = judge(&line.expect("a line")).err().unwrap_or_default();
        writeln!(answers, "{}", json!({ "fault": fault })).expect("a reader");
    }
}

/// What ztunnel does with its own chain when it gets it, and with a peer's in a handshake.
fn judge(line: &str) -> Result<(), String> {
    let question: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let leaf = certificates(&question["leafPem"])?;
    let intermediates = certificates(&question["intermediatesPem"])?;
    let roots = certificates(&question["rootPem"])?;
    // It leaves out the anchors that its verifier cannot read.
    let anchors: Vec<_> = roots
        .iter()
        .filter_map(|root| anchor_from_trusted_cert(root).ok())
        .collect();
    let leaf = leaf.first().ok_or("no leaf")?;
    let leaf = EndEntityCert::try_from(leaf).map_err(|error| format!("the leaf: {error:?}"))?;
    for (role, usage) in [
        ("server", KeyUsage::server_auth()),
        ("client", KeyUsage::client_auth()),
    ] {
        let (algorithms, now) = (ALL_VERIFICATION_ALGS, UnixTime::now());
        leaf.verify_for_usage(algorithms, &anchors, &intermediates, now, usage, None, None)
            .map_err(|error| format!("{role}: {error:?}"))?;
    }
    Ok(())
}

/// A chain with a certificate that its parser refuses is no chain to ztunnel.
fn certificates(pem: &Value) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = pem.as_str().ok_or("no text")?;
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| {
            let der = certificate.map_err(|error| error.to_string())?;
            x509_parser::parse_x509_certificate(&der).map_err(|error| error.to_string())?;
            Ok(der)
        })
        .collect()
}
