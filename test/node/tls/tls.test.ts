import "reflect-metadata/lite";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import {
  type ConnectionOptions,
  connect,
  createServer,
  getCACertificates,
  type SecureVersion,
  setDefaultCACertificates,
  type TLSSocket,
} from "node:tls";
import { SubjectAlternativeNameExtension, X509CertificateGenerator } from "@peculiar/x509";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CertificateFiles, tlsOptions } from "../../../src/node/tls.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { issuers } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let served: ServedCa;
let ca: string;
const ISSUERS = [{ issuer: issuers.cluster, jwks_uri: "http://127.0.0.1:9" }];

beforeAll(async () => {
  served = await serveCa({ ISSUERS });
  ca = await served.bundle();
});

afterAll(() => served.end());

interface Handshake {
  readonly suite: string;
  readonly version: string | null;
  readonly protocol: string | false | null;
  readonly names: string | undefined;
}

/** The negotiated parameters, or the code of the error. */
function shakeHands(options: ConnectionOptions, port = served.port): Promise<Handshake | string> {
  return new Promise((resolve) => {
    const socket = connect({ port, servername: servedName, ca, ...options }, () => {
      resolve({
        suite: socket.getCipher().standardName,
        version: socket.getProtocol(),
        protocol: socket.alpnProtocol,
        names: socket.getPeerX509Certificate()?.subjectAltName,
      });
      socket.destroy();
    });
    socket.on("error", (error) => resolve("code" in error ? String(error.code) : error.message));
  });
}

/** A certificate as somebody else would have made it. */
async function selfSigned(name: string) {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const names = new SubjectAlternativeNameExtension([{ type: "dns", value: name }]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${name}`,
    keys,
    signingAlgorithm: algorithm,
    extensions: [names],
  });
  const key = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  return { certificatePem: certificate.toString("pem"), keyPem: Pem.format("PRIVATE KEY", key) };
}

const only = (version: SecureVersion): ConnectionOptions => ({
  minVersion: version,
  maxVersion: version,
});

describe("a handshake", () => {
  test.each<[SecureVersion, string, string]>([
    ["TLSv1.3", "TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"],
    ["TLSv1.3", "TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"],
    ["TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
    ["TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"],
  ])("of %s with %s is accepted", async (version, ciphers, suite) => {
    expect(await shakeHands({ ...only(version), ciphers })).toMatchObject({ version, suite });
  });

  test.each<[SecureVersion, string]>([
    ["TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"],
    ["TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"],
    ["TLSv1.2", "ECDHE-ECDSA-AES128-SHA"],
    ["TLSv1.2", "AES128-GCM-SHA256"],
    ["TLSv1.1", "DEFAULT@SECLEVEL=0"],
  ])("of %s with %s is refused", async (version, ciphers) => {
    expect(await shakeHands({ ...only(version), ciphers })).toMatch(/ERR_SSL|ECONNRESET/);
  });

  test.each([
    ["h2", ["h2"]],
    ["h2", ["http/1.1", "h2"]],
    ["http/1.1", ["http/1.1"]],
    [false, undefined],
  ])("agrees on %s when it may", async (protocol, ALPNProtocols) => {
    const offered = ALPNProtocols && { ALPNProtocols };
    expect(await shakeHands({ ...offered })).toMatchObject({ protocol });
  });

  test("without a protocol in common is refused", async () => {
    expect(await shakeHands({ ALPNProtocols: ["spdy/3"] })).toMatch(/ERR_SSL|ECONNRESET/);
  });

  test("shows the DNS names that a mesh expects", async () => {
    expect(await shakeHands({})).toMatchObject({
      names: "DNS:istiod.istio-system.svc, DNS:istiod.istio-system.svc.cluster.local",
    });
    expect(await shakeHands({ servername: "evil.test" })).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  });
});

describe("a certificate in files", () => {
  test("is shown, and shown anew after the files change", async () => {
    const folder = await temporaryFolder();
    const TLS_CERTIFICATE_FILE = join(folder, "tls.crt");
    const TLS_KEY_FILE = join(folder, "tls.key");
    const place = async (name: string): Promise<void> => {
      const { certificatePem, keyPem } = await selfSigned(name);
      await writeFile(TLS_CERTIFICATE_FILE, certificatePem);
      await writeFile(TLS_KEY_FILE, keyPem);
    };
    await place("one.test");
    const server = await serveCa({ ISSUERS, TLS_CERTIFICATE_FILE, TLS_KEY_FILE });
    const shown = () => shakeHands({ rejectUnauthorized: false }, server.port);
    expect(await shown()).toMatchObject({ names: "DNS:one.test" });
    await writeFile(TLS_KEY_FILE, "half a file");
    expect(await shown()).toMatchObject({ names: "DNS:one.test" });
    await place("two.test");
    await eventually(async () => expect(await shown()).toMatchObject({ names: "DNS:two.test" }));
    await server.end();
  });

  test("and its key that are both missing are one fault, not two in turn", async () => {
    const folder = await temporaryFolder();
    const [certificate, key] = [join(folder, "tls.crt"), join(folder, "tls.key")];
    const certificateAt = CertificateFiles.read({ certificate, key });
    const asked = Array.from({ length: 300 }, () =>
      certificateAt(new Date()).catch((error: unknown) => String(error)),
    );
    const faults = new Set(await Promise.all(asked));
    expect([...faults]).toEqual([expect.stringMatching(/tls\.crt does not exist$/)]);
  });
});

test("a server without roots for its clients takes none whose certificate the public Web would", async () => {
  const { certificatePem: cert, keyPem: key } = await selfSigned("client.example");
  const usual = getCACertificates("default");
  onTestFinished(() => setDefaultCACertificates(usual));
  setDefaultCACertificates([...usual, cert]);
  const server = createServer(
    tlsOptions({ certificate: { chainPem: cert, keyPem: key }, clientRoots: "" }),
  );
  onTestFinished(() => void server.close());
  const accepted = once(server.listen(0, "127.0.0.1"), "secureConnection");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, ca: cert, servername: "client.example", cert, key });
  onTestFinished(() => void client.destroy());
  const [socket] = (await accepted) as [TLSSocket];
  expect([socket.getPeerX509Certificate() !== undefined, socket.authorized]).toEqual([true, false]);
});
