import { run } from "../../../testkit/programs/child-process.ts";
import type { Software } from "../../software.ts";
import type { Tally } from "../play.ts";
import type { Scratch } from "../scratch.ts";
import { certificatesIn, opensslFault, zlintFault } from "../verdicts.ts";
import type { Server } from "./client.ts";

/** A handshake, and the output that OpenSSL must give. */
interface Handshake {
  readonly what: string;
  readonly flags: readonly string[];
  readonly says: RegExp;
}

const ecdsa = (suite: string): string[] => ["-tls1_2", "-cipher", `ECDHE-ECDSA-${suite}`];
const old = ["-cipher", "DEFAULT:@SECLEVEL=0"];
const refused = /alert handshake failure/;

const handshakes: readonly Handshake[] = [
  { what: "TLS 1.3", flags: ["-tls1_3"], says: /New, TLSv1\.3, Cipher is TLS_AES_\d+_GCM_SHA/ },
  { what: "TLS 1.2", flags: ["-tls1_2"], says: /New, TLSv1\.2, Cipher is ECDHE-.*-AES\d+-GCM-SHA/ },
  { what: "no TLS 1.1", flags: ["-tls1_1", ...old], says: /alert protocol version/ },
  { what: "no TLS 1.0", flags: ["-tls1", ...old], says: /alert protocol version/ },
  { what: "ALPN h2", flags: ["-alpn", "h2"], says: /ALPN protocol: h2/ },
  { what: "ALPN h2 before HTTP/1.1", flags: ["-alpn", "http/1.1,h2"], says: /ALPN protocol: h2/ },
  { what: "no ALPN h3", flags: ["-alpn", "h3"], says: /alert no application protocol/ },
  { what: "AES-128-GCM", flags: ecdsa("AES128-GCM-SHA256"), says: /AES128-GCM-SHA256/ },
  {
    what: "no ChaCha20 in TLS 1.3",
    flags: ["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
    says: refused,
  },
  { what: "no ChaCha20 in TLS 1.2", flags: ecdsa("CHACHA20-POLY1305"), says: refused },
  { what: "no CBC", flags: ecdsa("AES128-SHA256"), says: refused },
  {
    what: "no key exchange by RSA",
    flags: ["-tls1_2", "-cipher", "AES128-GCM-SHA256"],
    says: refused,
  },
  { what: "no ticket to resume with", flags: ["-tls1_2"], says: /^(?![\s\S]*session ticket:)/ },
];

export async function playHandshakes(
  server: Server,
  zlint: Software,
  scratch: Scratch,
  tally: Tally,
): Promise<void> {
  for (const { what, flags, says } of handshakes) {
    await tally.show(what, handshakeFault(server, flags, says));
  }
  await tally.show("its certificate", certificateFault(server, zlint, scratch));
}

async function handshakeFault(
  server: Server,
  flags: readonly string[],
  says: RegExp,
): Promise<string | undefined> {
  const said = await sClient(server, flags);
  return says.test(said) ? undefined : firstError(said);
}

async function sClient({ address, tls }: Server, flags: readonly string[]): Promise<string> {
  const { serverName = "", rootsFile = "" } = tls ?? {};
  const whom = ["-connect", address, "-servername", serverName];
  const strictly = ["-x509_strict", "-verify_return_error", "-verify_hostname", serverName];
  const values = ["s_client", ...whom, "-CAfile", rootsFile, ...strictly, ...flags];
  const { stdout, stderr } = await run("openssl", values);
  return stdout + stderr;
}

/** The judges of callers' certificates judge the certificate of the server as well. */
async function certificateFault(
  server: Server,
  zlint: Software,
  scratch: Scratch,
): Promise<string | undefined> {
  const [leaf] = certificatesIn(await sClient(server, ["-showcerts"]));
  if (leaf === undefined || server.tls === undefined) return "there is none";
  const { serverName, rootsFile } = server.tls;
  const file = await scratch.file("serving", leaf);
  const fault = await opensslFault(file, rootsFile, "sslserver", serverName);
  return fault ?? ("program" in zlint ? zlintFault(zlint.program, file) : undefined);
}

const firstError = (said: string): string =>
  /(?:error:|Cipher is|ALPN).*/.exec(said)?.[0] ?? said.slice(0, 200);
