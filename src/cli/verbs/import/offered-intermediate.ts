import type { OpenedStore } from "../../../ca/opened-store.ts";
import { applyTaints } from "../../../pki/authority/taint.ts";
import { type Bytes, bytesEqual, toHex } from "../../../pki/encoding/bytes.ts";
import { isSelfIssued } from "../../../pki/path/certification-path.ts";
import type { VerifiedAuthority } from "../../../pki/path/verified-authority.ts";
import { type ImportedCertificate, readCertificate } from "./imported-certificate.ts";
import type { ImportedCertificates } from "./verify.ts";

/** The roots that the bundle has or will have, DER, with what the taints leave of them. */
export function bundleRoots(
  { authorities, additionalRoots, taints }: OpenedStore,
  now: Date,
): readonly Bytes[] {
  const roots = applyTaints([...authorities, ...additionalRoots], taints)
    .filter(({ schedule }) => schedule.retiresAt > now)
    .flatMap(({ roots }) => roots);
  return [...new Map(roots.map((root) => [toHex(root), root])).values()];
}

/**
 * Sorts the certificates of a chain file: the intermediate that was asked for, and what may be its anchors.
 * These are the self-signed ones, those of the operator's own file, and the roots of the bundle.
 */
export function sortChain(
  authority: ImportedCertificate,
  chain: readonly ImportedCertificate[],
  roots: readonly ImportedCertificate[],
  bundle: readonly Bytes[],
): ImportedCertificates {
  const others = chain.filter((each) => each !== authority);
  const known = bundle.map((der, i) => readCertificate(der, `root ${i + 1} of the trust bundle`));
  return {
    authority,
    others: others.filter((each) => !isSelfIssued(each)),
    anchors: [...known, ...roots, ...others.filter(isSelfIssued)],
  };
}

/** The root that an intermediate leads to, if the bundle does not have it. */
export function newRootOf(
  { certificates: { roots } }: VerifiedAuthority,
  bundle: readonly Bytes[],
): Bytes | undefined {
  return roots.find((root) => !isIn(bundle, root));
}

/** The roots that came with an intermediate beside its own, without those that the bundle has anyway. */
export function otherRootsOf(
  { additionalRoots }: VerifiedAuthority,
  bundle: readonly Bytes[],
): readonly Bytes[] {
  return additionalRoots.filter((root) => !isIn(bundle, root));
}

/** Whether a root is among these. */
export const isIn = (bundle: readonly Bytes[], root: Bytes): boolean =>
  bundle.some((each) => bytesEqual(each, root));
