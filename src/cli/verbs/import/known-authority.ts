import type { OpenedStore } from "../../../ca/opened-store.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { type Bytes, bytesEqual } from "../../../pki/encoding/bytes.ts";
import type { TrustDomain } from "../../../pki/spiffe-id.ts";
import { readCertificates } from "./imported-certificate.ts";
import { bundleRoots, isIn } from "./offered-intermediate.ts";
import type { PluggedInMaterial } from "./plugged-in-material.ts";
import { verifyPluggedIn } from "./verify.ts";

/** The authority of the store with this CA certificate: a job may import a directory again and again. */
export function knownAuthority(
  { certificate }: PluggedInMaterial,
  { authorities }: OpenedStore,
): SigningAuthority | undefined {
  const [own] = readCertificates(certificate);
  return authorities.find((each) => own && bytesEqual(each.certificate.der, own.der));
}

interface Knowledge {
  readonly known: SigningAuthority;
  readonly store: OpenedStore;
  readonly trustDomain: TrustDomain;
}

/**
 * Beside a CA certificate that the store has, the other files may have changed. A record never changes, so no
 * import takes them on.
 *
 * @throws OperatorError that says which file changed, or what is wrong in one.
 */
export async function requireNothingNew(
  material: PluggedInMaterial,
  { known, store, trustDomain }: Knowledge,
  now: Date,
): Promise<void> {
  const { certificates, additionalRoots } = await verifyPluggedIn(material, trustDomain, now);
  const bundle = [...bundleRoots(store, now), ...known.roots];
  const changes: string[] = [];
  if (![...certificates.roots, ...additionalRoots].every((root) => isIn(bundle, root))) {
    changes.push(
      "root-cert.pem has a root that the trust bundle has not: `rampart root add` adds it",
    );
  }
  if (!isSameChain(certificates.intermediates, known.intermediates)) {
    changes.push(
      "cert-chain.pem has other intermediates than the store: they come with the next CA certificate, for another key",
    );
  }
  if (changes.length === 0) return;
  throw new OperatorError(
    `the store has this CA certificate, and other files beside it have changed:\n${changes.join("\n")}`,
  );
}

const isSameChain = (one: readonly Bytes[], other: readonly Bytes[]): boolean =>
  one.length === other.length && one.every((der) => isIn(other, der));
