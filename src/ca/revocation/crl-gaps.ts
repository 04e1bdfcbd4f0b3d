import { bytesEqual, fingerprintOf } from "../../pki/encoding/bytes.ts";
import { maySignCrls } from "../../pki/x509/crl/signed-crl.ts";
import type { AuthorityView } from "../authority-view.ts";

/**
 * One sentence for each CA of which the mesh has no CRL. Some verifiers check whole paths: OpenSSL with
 * `-crl_check_all`, and Envoy. They refuse every leaf below such a CA once they have a CRL of another one.
 */
export function crlGapsIn({ crlIssuers, trustBundle }: AuthorityView): readonly string[] {
  const authorities = crlIssuers.map(({ authority }) => authority);
  const [able, unable] = [
    authorities.filter(maySignCrls),
    authorities.filter((each) => !maySignCrls(each)),
  ];
  const uncovered = trustBundle.roots.filter(
    (root) => !authorities.some(({ certificate }) => bytesEqual(certificate.der, root)),
  );
  return able.length === 0
    ? []
    : [
        ...unable.map(({ id }) => `the authority ${id} has no CRL: its key usage lacks cRLSign`),
        ...uncovered.map(
          (root) =>
            `no CRL of the root with the SHA-256 fingerprint ${fingerprintOf(root)} is known`,
        ),
      ];
}
