import { Certificate } from "../../pki/x509/certificate.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import type { AuthorityView } from "../authority-view.ts";

/** The stored CRL of a root, which a key in a key service has signed. */
export interface RootCrl {
  readonly crl: Crl;
  readonly root: Certificate;
}

/** Selects the newest CRL of each root of the bundle that has one. Root certificates with one key and name share a CRL. */
export function rootCrlsIn({
  trustBundle,
  store,
}: Pick<AuthorityView, "trustBundle" | "store">): readonly RootCrl[] {
  const found = new Map<Crl, Certificate>();
  const { crl: stored } = store.statements;
  for (const der of stored.length > 0 ? trustBundle.roots : []) {
    const root = Certificate.parse(der);
    const crl = newestOf(root, stored);
    if (crl) found.set(crl, root);
  }
  return [...found].map(([crl, root]) => ({ crl, root }));
}

/** The newest stored CRL of a root; `undefined` if it has none. */
export function newestOf(root: Certificate, stored: readonly Crl[]): Crl | undefined {
  const issuer = Crl.issuer(root);
  return stored
    .filter((crl) => Crl.isOf(crl, issuer))
    .reduce<Crl | undefined>((a, b) => (a && numberOf(a) >= numberOf(b) ? a : b), undefined);
}

/** The number of a CRL; 0 without one. */
export const numberOf = ({ number = 0n }: Crl): bigint => number;
