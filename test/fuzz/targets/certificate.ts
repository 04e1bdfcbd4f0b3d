import "reflect-metadata/lite";
import { createPublicKey, type KeyObject, X509Certificate as NodeCertificate } from "node:crypto";
import { X509Certificate as PeculiarCertificate } from "@peculiar/x509";
import { CaError } from "../../../src/foundation/errors.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { parseForeignAuthority } from "../../../src/pki/authority/foreign-authority.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import type { Random } from "../../simulation/random.ts";
import { elementAt, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { authorityKey, certificates, signedCertificate } from "../corpus/certificates.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateDer } from "../mutation/der.ts";
import { requireThat, type Target, unlessRefused } from "./target.ts";

/** The DER of a certificate. Its fields are compared with those that OpenSSL and `@peculiar/x509` read. */
export const certificate: Target = {
  generate: (random) => {
    const intact = oneOf(random, certificates);
    return random.chance(0.7) ? mutateDer(random, intact) : resigned(random, intact);
  },
  judge: async (der) => {
    const parsed = await unlessRefused(() => Certificate.parse(der), DerError);
    const openssl = attempt(() => new NodeCertificate(der));
    if (!parsed) return openssl ? "refused, read by OpenSSL" : "refused";
    const fields = parsed.toBeSigned;
    const isRoot = await isAcceptedRoot(der);
    requireThat(!isRoot || openssl !== undefined, "trusts a root that OpenSSL does not read");
    if (!openssl) return "read, not read by OpenSSL";
    requireSameFields(fields, openssl);
    requireThat(!isRoot || isPeculiarKey(der, fields), "@peculiar/x509 reads another public key");
    return isRoot ? "a root" : "read";
  },
};

function resigned(random: Random, intact: Octets): Octets {
  return signedCertificate(authorityKey("P-256"), mutateDer(random, elementAt(intact, [0])));
}

/** Whether an operator can add it to a trust bundle. */
const isAcceptedRoot = async (der: Octets): Promise<boolean> =>
  (await unlessRefused(
    () => {
      parseForeignAuthority(der);
      nodeCryptoProvider.requireReadable(der);
      return AdditionalRoot.create(der, new Date("2026-11-21T12:00:00Z"));
    },
    DerError,
    CaError,
  )) !== undefined;

function requireSameFields(ours: Certificate["toBeSigned"], openssl: NodeCertificate): void {
  const isNegative = ((ours.serialNumber[0] ?? 0) & 0x80) !== 0;
  // OpenSSL writes a negative number with a sign, which BigInt does not read.
  const isSameSerial = (): boolean =>
    BigInt(`0x${inHex(ours.serialNumber)}`) === BigInt(`0x${openssl.serialNumber}`);
  requireThat(isNegative || isSameSerial(), "OpenSSL reads another serial number");
  const { notBefore, notAfter } = ours.validity;
  requireThat(
    openssl.validFromDate.getTime() === notBefore.getTime(),
    "OpenSSL reads another notBefore",
  );
  requireThat(
    openssl.validToDate.getTime() === notAfter.getTime(),
    "OpenSSL reads another notAfter",
  );
  const certified = exported(() => openssl.publicKey);
  const read = exported(() =>
    createPublicKey({ key: Buffer.from(ours.spki), format: "der", type: "spki" }),
  );
  requireThat(certified === read, "OpenSSL reads another public key");
}

const exported = (read: () => KeyObject): string | undefined =>
  attempt(() => read().export({ type: "spki", format: "der" }).toString("hex"));

function isPeculiarKey(der: Octets, { spki }: Certificate["toBeSigned"]): boolean {
  const read = attempt(() => new PeculiarCertificate(der).publicKey.rawData);
  return read === undefined || Buffer.from(read).equals(spki);
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
