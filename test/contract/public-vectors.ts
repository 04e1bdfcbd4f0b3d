import { describe, expect, test } from "vitest";
import { CaError, OperatorError } from "../../src/foundation/errors.ts";
import type { CryptoProvider } from "../../src/pki/crypto-provider.ts";
import { Bytes } from "../../src/pki/encoding/bytes.ts";
import { DerError } from "../../src/pki/encoding/der-reader.ts";
import { CaCertificate } from "../../src/pki/path/certification-path.ts";
import { VerifiedAuthority } from "../../src/pki/path/verified-authority.ts";
import { ecdsa } from "../../src/pki/signature-algorithm.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { Certificate, parseToBeSigned } from "../../src/pki/x509/certificate.ts";
import { isSignedByKey, isSignedWith } from "../../src/pki/x509/certificate-signature.ts";
import { SubjectPublicKey } from "../../src/pki/x509/subject-public-key.ts";
import limbo from "../vectors/x509-limbo.json" with { type: "json" };
import { explained } from "./limbo-differences.ts";

/** Keys as SubjectPublicKeyInfo, messages and signatures in hexadecimal digits. */
interface WycheproofGroup {
  readonly key: string;
  readonly tests: readonly (readonly [
    number: number,
    message: string,
    signature: string,
    result: "valid" | "invalid" | "acceptable",
  ])[];
}

interface LimboCase {
  readonly id: string;
  readonly trusted_certs: readonly string[];
  readonly untrusted_intermediates: readonly string[];
  readonly peer_certificate: string;
  readonly validation_time: string | null;
  readonly expected_result: "SUCCESS" | "FAILURE";
}

/** Vectors as they are committed. */
interface Packed {
  readonly gzip: string;
}

async function unpack<Value>({ gzip }: Packed): Promise<Value> {
  const packed = new Blob([fromBase64(gzip)]);
  const text = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(text).json();
}

const fromHex = (text: string): Bytes =>
  Uint8Array.from(text.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));

function fromBase64(text: string): Bytes {
  const characters = atob(text);
  const octets = new Uint8Array(characters.length);
  for (let i = 0; i < octets.length; i++) octets[i] = characters.charCodeAt(i);
  return octets;
}

/** AlgorithmIdentifiers as certificates have them, written here by hand from RFC 5758, 4055, 8410 and 9881. */
function identifierOf(file: string): Bytes {
  const hash = /_sha(256|384|512)/.exec(file)?.[1] ?? "";
  const arc = { "256": ["02", "0b", "01"], "384": ["03", "0c", "02"], "512": ["04", "0d", "03"] }[
    hash
  ];
  const parameters = { mldsa_44: "11", mldsa_65: "12", mldsa_87: "13" }[file];
  if (parameters) return fromHex(`300b06096086480165030403${parameters}`);
  if (file === "ed25519") return fromHex("300506032b6570");
  if (!arc) throw new Error(`${file} names no hash`);
  const [dsa, pkcs1, digestArc] = arc;
  if (file.startsWith("ecdsa")) return fromHex(`300a06082a8648ce3d0403${dsa}`);
  if (file.startsWith("rsa_signature")) return fromHex(`300d06092a864886f70d0101${pkcs1}0500`);
  const digest = `300d06096086480165030402${digestArc}0500`;
  const salt = (Number(hash) / 8).toString(16);
  const mask = `301a06092a864886f70d010108${digest}`;
  return fromHex(`304106092a864886f70d01010a3034a00f${digest}a11c${mask}a2030201${salt}`);
}

/** A verdict on a signature. What cannot be read is refused. */
type Verify = (key: Bytes, message: Bytes, signature: Bytes) => Promise<boolean>;

const refusing =
  (verify: Verify): Verify =>
  (...values) =>
    verify(...values).catch((error: unknown) => {
      if (error instanceof DerError || error instanceof CaError) return false;
      throw error;
    });

/** Every way in which Rampart verifies a signature of such a file. */
function waysOf(file: string, providers: readonly CryptoProvider[]): readonly Verify[] {
  const curve = /secp(256|384|521)r1_sha(256|384|512)_p1363/.exec(file);
  if (curve) {
    const scheme = ecdsa(`P-${curve[1]}` as "P-256", `SHA-${curve[2]}` as "SHA-256");
    return [
      async (key, message, octets) =>
        (await webCryptoProvider.verify(key, scheme, octets, message)) === true,
    ];
  }
  const signatureAlgorithm = identifierOf(file);
  const byKey = refusing(async (key, message, signature) =>
    isSignedByKey(
      { signedBytes: message, signatureAlgorithm, signature },
      SubjectPublicKey.parse(key),
    ),
  );
  // Only a path to a root of somebody else may have PSS.
  if (file.startsWith("rsa_pss")) return [byKey];
  const withProvider = (provider: CryptoProvider): Verify =>
    refusing(async (key, message, signature) => {
      const signed = { signedBytes: message, signatureAlgorithm, signature };
      return isSignedWith(signed, SubjectPublicKey.parse(key), provider);
    });
  // For WebCrypto, both ways are one but for PSS.
  return [byKey, ...providers.filter((each) => each !== webCryptoProvider).map(withProvider)];
}

/** Project Wycheproof's verdicts on signatures, against all code that verifies one. */
export function holdToWycheproof(vectors: Packed, providers: readonly CryptoProvider[]): void {
  describe("Project Wycheproof", async () => {
    const files = await unpack<Readonly<Record<string, readonly WycheproofGroup[]>>>(vectors);
    test.each(Object.entries(files))("%s", async (file, groups) => {
      const faults: string[] = [];
      let count = 0;
      const ways = waysOf(file, providers);
      for (const group of groups) {
        // The key policy has no exponent of 3 (BSI TR-02102, FIPS 186-5 §5.1), so no such signature counts.
        const isOutside = group.key.endsWith("020103");
        const key = fromHex(group.key);
        for (const [number, messageHex, signatureHex, result] of group.tests) {
          // OpenSSL is slow with the larger curves, whose valid signatures are about its arithmetic.
          if (/secp(?:384|521)/.test(file) && result === "valid" && number % 3 > 0) continue;
          const [message, signature] = [fromHex(messageHex), fromHex(signatureHex)];
          for (const [way, verify] of ways.entries()) {
            count += 1;
            const isValid = await verify(key, message, signature);
            if (result === "acceptable" && !isOutside) continue;
            if (isValid === (result === "valid" && !isOutside)) continue;
            faults.push(`way ${way}, case ${number}: ${result}, and isValid is ${isValid}`);
          }
        }
      }
      expect(faults).toEqual([]);
      expect(count).toBeGreaterThan(25);
    });
  });
}

const ders = (pems: readonly string[]): readonly Bytes[] =>
  pems.map((pem) => fromBase64(pem.replaceAll(/-----[^-]+-----|\s/g, "")));

/** What an import says of the CA that issued the leaf of a case: `undefined` if it takes one of that name. */
async function refusalOf(each: LimboCase): Promise<string | undefined> {
  const now = new Date(each.validation_time ?? "2026-11-23T00:00:00Z");
  // The readers of files and of an upstream's answer hold to it.
  if (each.untrusted_intermediates.length > VerifiedAuthority.maximumCertificates)
    return "too many certificates";
  const refusals: string[] = [];
  for (const [i, issuer] of issuersOf(each).entries()) {
    try {
      const read = (pems: readonly string[]): readonly CaCertificate[] =>
        ders(pems).map((der) => CaCertificate.parse(der, `certificate ${i}`));
      const [authority] = read([issuer]);
      if (!authority) throw new Error("a PEM text has no certificate");
      const others = read(each.untrusted_intermediates.filter((pem) => pem !== issuer));
      const anchors = read(each.trusted_certs);
      await VerifiedAuthority.verify({ authority, others, anchors }, trustDomain, now);
      return undefined;
    } catch (error) {
      const isRefusal = [OperatorError, DerError, CaError].some((kind) => error instanceof kind);
      if (!isRefusal) throw error;
      refusals.push(`${error}`);
    }
  }
  return refusals[0] ?? "no certificate has the name of the leaf's issuer";
}

/** The certificates that have the name of the leaf's issuer; all of them where the leaf cannot be read. */
function issuersOf({
  peer_certificate,
  untrusted_intermediates,
  trusted_certs,
}: LimboCase): readonly string[] {
  const all = [...untrusted_intermediates, ...trusted_certs];
  const namesOf = (pem: string | undefined) => {
    const [der] = ders(pem ? [pem] : []);
    return der && parseToBeSigned(Certificate.parse(der).signedBytes);
  };
  let issuer: Bytes;
  try {
    const names = namesOf(peer_certificate);
    if (!names) return all;
    ({ issuer } = names);
  } catch {
    return all;
  }
  return all.filter((pem) => {
    try {
      return Bytes.equal(namesOf(pem)?.subject ?? new Uint8Array(), issuer);
    } catch {
      return false;
    }
  });
}

const trustDomain = "example.com" as Parameters<typeof VerifiedAuthority.verify>[1];

/** x509-limbo's chains, each as a CA that somebody imports. Every difference has its reason. */
export function holdToLimbo(): void {
  describe("x509-limbo", async () => {
    const cases = await unpack<readonly LimboCase[]>(limbo);
    test("every chain that it refuses is refused, and every other one is taken, but for what is named", async () => {
      const differences: string[] = [];
      for (const each of cases) {
        const refusal = await refusalOf(each);
        const agrees = (refusal === undefined) === (each.expected_result === "SUCCESS");
        if (!agrees) differences.push(`${each.id}: ${(refusal ?? "taken").replaceAll("\n", " ")}`);
      }
      expect(differences).toEqual(explained(differences));
    });
  });
}
