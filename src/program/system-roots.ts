import type { X509Certificate } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import tls from "node:tls";
import { PemFile, parseCertificates } from "./files/pem-file.ts";

/** The bundles of Linux distributions. The first that can be read is used, as in Go's `crypto/x509`. */
const usualFiles: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/pki/tls/cacert.pem",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

const usualFolders: readonly string[] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/** The roots that the system trusts. */
export const SystemRoots = {
  /**
   * Reads the roots of this machine from the file `SSL_CERT_FILE` and the folders `SSL_CERT_DIR` (with colons between
   * them). Without a variable, it reads where Linux distributions keep roots; on other systems, without both, the
   * system's store. What cannot be read or parsed is left out.
   */
  read({
    SSL_CERT_FILE: file,
    SSL_CERT_DIR: folders,
  }: Readonly<Record<string, string | undefined>>): readonly X509Certificate[] {
    if (process.platform !== "linux" && !file && !folders)
      return parseCertificates(tls.getCACertificates("system").join("\n"));
    const bundle = (file ? [file] : usualFiles).map(rootsIn).find((roots) => roots.length > 0);
    const others = (folders ? folders.split(":") : usualFolders).flatMap(filesIn).flatMap(rootsIn);
    const distinct = new Map(
      [...(bundle ?? []), ...others].map((root) => [root.fingerprint256, root]),
    );
    return [...distinct.values()];
  },

  /** The roots of this machine, PEM; none on a machine without a store. They are read once. */
  pem(): string {
    known ??= SystemRoots.read(process.env).map(String).join("");
    return known;
  },

  /**
   * For the whole process, adds the roots of this machine to Node's built-in ones, for TLS connections without roots of
   * their own. Does nothing on a runtime without this setting.
   */
  trust(): void {
    if (areTrusted) return;
    areTrusted = true;
    const pem = SystemRoots.pem();
    if (pem !== "") tls.setDefaultCACertificates?.([...tls.getCACertificates("default"), pem]);
  },
};

function filesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

function rootsIn(file: string): readonly X509Certificate[] {
  try {
    return parseCertificates(PemFile.readNow(file));
  } catch {
    return [];
  }
}

let known: string | undefined;

let areTrusted = false;
