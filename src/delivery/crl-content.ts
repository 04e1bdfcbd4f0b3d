import type { Authorities } from "../ca/authorities.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import { maximumContentOctets } from "../kubernetes/root-config-map.ts";
import { parseCertificate } from "../pki/x509/certificate.ts";
import { type Crl, crlIssuerOf, isCrlOf, parseCrl } from "../pki/x509/crl/crl.ts";
import { comparingLists, type OwnList } from "./held-lists.ts";
import type { PushContent } from "./root-push.ts";

/**
 * The CRLs of the CA. They are empty, which clears earlier ones, where the CA publishes none, and where Envoy would
 * refuse certificates of a root without a CRL.
 */
export function crlContent(
  crls: CrlSource | undefined,
  authorities: Authorities,
  log: EventLog,
): PushContent {
  let told = "";
  const tell = (why: string): void => {
    if (why !== "" && why !== told) {
      const detail = `no proxy gets CRLs: ${why}`;
      log.operation({ event: "crls-emptied", level: "error", detail });
    }
    told = why;
  };
  return {
    name: "crls",
    at: async (now) => {
      if (!crls) return { pem: "", sequence: 0 };
      const [view, published] = [await authorities.at(now), await crls(now)];
      const { trustBundle } = view;
      const own = published.crls.flatMap(({ authority: id, der }): OwnList[] => {
        const authority = view.crlIssuers.find((issuer) => issuer.authority.id === id)?.authority;
        return authority ? [{ list: parseCrl(der), authority }] : [];
      });
      const lists = own.map(({ list }) => list);
      const uncovered = trustBundle.roots.filter((root) => !hasList(root, lists)).length;
      const isTooLong = published.pem.length > maximumContentOctets;
      const why = uncovered > 0 ? `roots without one: ${uncovered}` : isTooLong ? tooLong : "";
      tell(why);
      const times = lists.map(({ thisUpdate }) => thisUpdate.getTime() / 1000);
      const sequence = Math.max(0, ...times);
      if (why !== "") return { pem: "", sequence };
      return { pem: published.pem, sequence, isAsGood: comparingLists(own, now) };
    },
  };
}

const tooLong = `they have more than ${maximumContentOctets} octets`;

function hasList(root: Crl["der"], lists: readonly Crl[]): boolean {
  const signer = crlIssuerOf(parseCertificate(root));
  return lists.some((list) => isCrlOf(list, signer));
}
