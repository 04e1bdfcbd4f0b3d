import type { Authorities } from "../ca/authorities.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { Pem } from "../pki/encoding/pem.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { isSignedByKey } from "../pki/x509/certificate-signature.ts";
import { Crl } from "../pki/x509/crl/crl.ts";
import { SubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import type { DeliverableContent } from "./push-to-cluster.ts";
import { HeldRoots } from "./root-config-map.ts";

/** What a push delivers. */
export interface PushContent {
  /** The first word of its events: `roots-delivered`. */
  readonly name: "roots" | "crls";
  /** @throws Error that says why there is nothing to deliver. */
  readonly at: (now: Date) => Promise<DeliverableContent>;
}

/** What is pushed. */
export const PushContent = {
  /** The trust bundle of a CA, to be delivered into clusters. */
  trustBundle(authorities: Authorities): PushContent {
    return {
      name: "roots",
      at: async (now) => {
        const { trustBundle, sequence } = await authorities.at(now);
        // An empty bundle would make every verifier that gets it trust nobody.
        if (trustBundle.roots.length === 0) throw new Error("there is no root to deliver");
        return { pem: trustBundle.pem, sequence };
      },
    };
  },

  /**
   * The CRLs of the CA. If the CA publishes none, or Envoy would refuse certificates of a root without a CRL, they are
   * empty, which clears earlier ones.
   */
  crls(crls: CrlSource | undefined, authorities: Authorities, log: EventLog): PushContent {
    let logged = "";
    const tell = (why: string): void => {
      if (why !== "" && why !== logged) {
        const detail = `no proxy gets CRLs: ${why}`;
        log.operation({ event: "crls-emptied", level: "error", detail });
      }
      logged = why;
    };
    return {
      name: "crls",
      at: async (now) => {
        if (!crls) return { pem: "", sequence: 0 };
        const [{ trustBundle }, published] = [await authorities.at(now), await crls(now)];
        const own = published.ofBundle.map(({ issuer, der }) => ({ crl: Crl.parse(der), issuer }));
        const ownCrls = own.map(({ crl }) => crl);
        const uncovered = trustBundle.roots.filter((root) => !hasCrl(root, ownCrls)).length;
        const isTooLong = published.pem.length > HeldRoots.maximumOctets;
        const why = uncovered > 0 ? `roots without one: ${uncovered}` : isTooLong ? tooLong : "";
        tell(why);
        const times = ownCrls.map(({ thisUpdate }) => thisUpdate.getTime() / 1000);
        const sequence = Math.max(0, ...times);
        if (why !== "") return { pem: "", sequence };
        return { pem: published.pem, sequence, isAsGood: comparingWith(own, now) };
      },
    };
  },
};

const tooLong = `they have more than ${HeldRoots.maximumOctets} octets`;

function hasCrl(root: Crl["der"], crls: readonly Crl[]): boolean {
  const signer = Crl.issuer(Certificate.parse(root));
  return crls.some((crl) => Crl.isOf(crl, signer));
}

/** A CRL of this CA, and the certificate of the authority or root that has signed it. */
interface OwnCrl {
  readonly crl: Crl;
  readonly issuer: Certificate;
}

/** How long a newer CRL in a cluster must still be valid to stay: a kubelet takes minutes to update a proxy. */
const marginSeconds = 600;

/**
 * Compares the CRLs that a cluster has with those of this process. Each replica signs CRLs of its own, so the same content
 * has several signatures. A CRL stays if it has the same content or a higher number (RFC 5280 §5.2.3), and a valid
 * signature, because tenants may write to the ConfigMap.
 *
 * @returns A function that says whether PEM of a cluster may stay.
 */
function comparingWith(own: readonly OwnCrl[], now: Date): (pem: string) => Promise<boolean> {
  // Remembers the last result: most namespaces have the same PEM, and verifying each would take long.
  let last: { readonly pem: string; readonly saysAll: Promise<boolean> } | undefined;
  return (pem) => {
    if (last?.pem !== pem) last = { pem, saysAll: saysAllOf(own, pem, now) };
    return last.saysAll;
  };
}

async function saysAllOf(own: readonly OwnCrl[], pem: string, now: Date): Promise<boolean> {
  const held = parseWritten(pem);
  if (held.length !== own.length) return false;
  for (const each of own) {
    const signer = Crl.issuer(each.issuer);
    const [other, ...more] = held.filter((crl) => Crl.isOf(crl, signer));
    if (!other || more.length > 0 || !(await isAsGood(other, each, now))) return false;
  }
  return true;
}

async function isAsGood(held: Crl, { crl, issuer }: OwnCrl, now: Date): Promise<boolean> {
  const isSame = Bytes.equal(held.signedBytes, crl.signedBytes);
  const isNewer =
    (held.number ?? 0n) > (crl.number ?? 0n) &&
    Crl.isCurrentAt(held, addSeconds(now, marginSeconds));
  if (!isSame && !isNewer) return false;
  return isSignedByKey(held, SubjectPublicKey.parse(issuer.toBeSigned.spki));
}

/** Parses CRLs as this CA writes them; empty for any other text. */
function parseWritten(pem: string): Crl[] {
  try {
    const crls = Pem.crls(pem).map((symbols) =>
      Crl.parse(Base64.parse(symbols) ?? new Uint8Array()),
    );
    return crls.map(({ der }) => Pem.format("X509 CRL", der)).join("") === pem ? crls : [];
  } catch (error) {
    if (error instanceof DerError) return [];
    throw error;
  }
}
