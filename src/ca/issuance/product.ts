import type { Caller } from "../../authn/caller.ts";
import type { ClusterSigner } from "../../authn/token-issuer.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { CaError } from "../../foundation/errors.ts";
import type { TokenKey } from "../../pki/jose/token-key.ts";
import { SpiffeId } from "../../pki/spiffe-id.ts";
import type { IntermediateRights } from "../../pki/x509/intermediate.ts";
import type { Authorities } from "../authorities.ts";
import { CertSigner, maximumServingNames } from "./signer-names.ts";
import type { NamedSigner } from "./signers.ts";

/** What a caller gets. The kind alone decides the profile, its lint, the lifetimes, and what audit trail and log say. */
export type Product = CertificateProduct | TokenProduct;

/** A JWT-SVID, signed by a key for tokens. */
export interface TokenProduct {
  readonly kind: "token";
  readonly audiences: readonly string[];
}

/** The issuer, algorithm and lifetimes of the JWT-SVIDs that a CA issues. */
export interface TokenPolicy {
  /** The `iss` of every token, byte for byte. */
  readonly issuer: string;
  /** The algorithm of new keys. */
  readonly algorithm: TokenKey["algorithm"];
  readonly defaultSeconds: number;
  readonly maximumSeconds: number;
}

/** The kinds of certificate that an authority signs, each with what it is to contain. */
export type CertificateProduct =
  /** An X509-SVID, of the unnamed authorities or of a named signer. */
  | {
      readonly kind: "workload";
      readonly signer?: string;
      /** DNS names that a rule adds to the SPIFFE ID. */
      readonly dnsNames?: readonly string[] | undefined;
    }
  /** A serving certificate, for a gateway or for a service. */
  | { readonly kind: "serving"; readonly dnsNames: readonly string[] }
  /** The certificate of a subordinate CA. */
  | { readonly kind: "intermediate"; readonly rights: IntermediateRights };

/** A certificate to issue, and the authorities, one of which signs it. */
export interface Order {
  readonly product: CertificateProduct;
  readonly authorities: Authorities;
}

/** The authorities of a CA: those without a name, and those of its named signers. */
export interface Signers {
  readonly authorities: Authorities;
  readonly signers: ReadonlyMap<string, NamedSigner>;
}

/**
 * Decides what a request asks for, by its `CertSigner` and the rights of its caller. Never falls back to
 * another signer. A caller without serving rights gets `signer-unknown`.
 *
 * @param spiffeId The identity that the caller gets: its own, or one that it may name.
 * @throws CaError `signer-unknown`, `signer-denied`, `dns-name-denied`
 */
export function orderFor(
  request: { readonly certSigner: string; readonly dnsNames?: readonly string[] },
  { authorities, signers }: Signers,
  caller: Caller,
  spiffeId: SpiffeId,
): Order {
  const { certSigner: name } = request;
  if (name === "") return { authorities, product: { kind: "workload" } };
  if (name === CertSigner.serving) {
    const dnsNames = servingNames(caller, request.dnsNames ?? []);
    if (dnsNames) return { authorities, product: { kind: "serving", dnsNames } };
  }
  if (name === CertSigner.intermediate) {
    const rights = intermediateRights(caller, spiffeId);
    return { authorities, product: { kind: "intermediate", rights } };
  }
  const signer = signers.get(name);
  if (!signer) {
    const detail = "no signer of the requested name is configured";
    throw new CaError({ reason: "signer-unknown" }, detail);
  }
  const account = SpiffeId.parseWorkload(spiffeId)?.account;
  if (account && signer.mayUse(caller, account)) {
    return { authorities: signer.authorities, product: { kind: "workload", signer: name } };
  }
  throw new CaError({ reason: "signer-denied" }, `the caller may not use the signer ${name}`);
}

/** The signer of a product as logs name it; `undefined` for a serving certificate, and for an X509-SVID of no named signer. */
export function signerNameOf(product: CertificateProduct): string | undefined {
  if (product.kind === "intermediate") return CertSigner.intermediate;
  return product.kind === "workload" ? product.signer : undefined;
}

/**
 * The DNS names of a caller's serving certificate; `undefined` for a caller that gets none.
 *
 * The table of the caller's issuer names the accounts of gateways and their DNS names. It also names the
 * signers of its cluster, which request certificates for services, and bounds the names that they may
 * request. No DNS name enters a certificate by another way; those of the CSR are ignored.
 *
 * @param requested `DnsNames` of the request, which a gateway's own names overrule.
 * @throws CaError `dns-name-denied`
 */
function servingNames(
  { issuer, account }: Caller,
  requested: readonly string[],
): readonly string[] | undefined {
  const signer = issuer?.clusterSigner?.(account);
  return signer ? namesWithin(signer, requested) : issuer?.gatewayNames?.(account);
}

function namesWithin({ mayName }: ClusterSigner, requested: readonly string[]): readonly string[] {
  const names = [...new Set(requested)];
  const areWithin = names.every((name) => DnsName.is(name) && mayName(name));
  if (areWithin && names.length > 0 && names.length <= maximumServingNames) return names;
  const detail =
    "the caller may not have a serving certificate with the DNS names that it requests";
  throw new CaError({ reason: "dns-name-denied" }, detail);
}

/**
 * What a caller's intermediate may be, by the table of its issuer. Nothing else decides, and of the CSR only the key is
 * used. A caller that names another identity than its own gets none. @throws CaError `signer-denied`
 */
function intermediateRights(caller: Caller, requested: SpiffeId): IntermediateRights {
  const { issuer, account, spiffeId } = caller;
  const rights = requested === spiffeId ? issuer?.intermediateRights?.(account) : undefined;
  if (rights) return rights;
  throw new CaError({ reason: "signer-denied" }, "the caller may not have an intermediate");
}
