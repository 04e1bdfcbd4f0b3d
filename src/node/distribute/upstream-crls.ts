import { logFault } from "../../foundation/events.ts";
import { maximumContentOctets } from "../../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { crlDocument, crlsPem } from "../../program/bundle/crl-document.ts";
import { type MeshAuthorities, MeshCrls } from "../../program/bundle/crls.ts";
import { parseCertificates } from "../../program/files/pem-file.ts";
import type { ServerContext } from "../server.ts";
import { followUpstream, type UpstreamBundle, type UpstreamDocument } from "./upstream-bundle.ts";

/** The CRLs of a CA for ConfigMaps. */
interface UpstreamCrls {
  /** `undefined` until the CA has answered once. Empty PEM while verifiers could not use them. */
  readonly current: () => NumberedBundle | undefined;
  readonly end: () => Promise<void>;
}

/** A kubelet takes some minutes to bring a ConfigMap to a proxy. An outage of the API server is longer. */
const times = { margin: 600, awaited: 60 };

/**
 * Follows the CRLs of a CA. Proxies under pilot-agent look at each CA of a path, so the CRLs of
 * intermediates do not suffice. A root without a CRL leaves every proxy without any.
 */
export function followUpstreamCrls(
  { source, current: bundle }: UpstreamBundle,
  context: ServerContext,
): UpstreamCrls {
  const { log, clock } = context;
  const known = new MeshCrls(times);
  const authorities = rootsOf(bundle);
  const content = contentOf((detail) => {
    log.operation({ event: "crl-not-delivered", level: "error", detail });
  });
  let hasAnswered = false;
  let lastFaults = "";
  const document: UpstreamDocument<readonly Crl[]> = {
    path: "/crl.pem",
    kind: crlDocument,
    onDocument: (crls) => {
      const faults = known.take(crls, authorities(), clock());
      hasAnswered = true;
      const said = [...new Set(faults)].join(", ");
      // A CA under another CA's root publishes CRLs of intermediates for good.
      if (said !== lastFaults && said !== "") logFault(log, "crl-refused", new Error(said));
      lastFaults = said;
      return faults.length === 0;
    },
    mayBeAbsent: () => {
      hasAnswered = true;
      return !known.hasCurrent(clock());
    },
    failed: (message) => logFault(log, "crl-not-fetched", new Error(message)),
  };
  const end = followUpstream(source, document, context);
  return {
    current: () => {
      // Without a root no CRL has an issuer.
      if (!hasAnswered || bundle() === undefined) return undefined;
      const { crls, missing } = known.usable(authorities(), clock());
      const [root] = known.all.length > 0 ? missing : [];
      return content(crls, root && `the root ${root.subject} has no current CRL`);
    },
    end,
  };
}

/** The roots of the bundle, parsed once for each bundle. */
function rootsOf(bundle: UpstreamBundle["current"]): () => MeshAuthorities {
  let parsed: (MeshAuthorities & { readonly pem: string }) | undefined;
  return () => {
    const { pem } = bundle() ?? { pem: "" };
    if (parsed?.pem !== pem) parsed = { pem, roots: parseCertificates(pem), intermediates: [] };
    return parsed;
  };
}

/** Writes CRLs as the content of a ConfigMap, once for the same CRLs, and tells why it is empty. */
function contentOf(tell: (why: string) => void) {
  let latest: (NumberedBundle & { readonly crls: readonly Crl[] }) | undefined;
  let told: string | undefined;
  return (crls: readonly Crl[], missing: string | undefined): NumberedBundle => {
    const isSame =
      latest?.crls.length === crls.length && crls.every((crl) => latest?.crls.includes(crl));
    if (!latest || !isSame) {
      const pem = crlsPem(crls);
      const times = crls.map(({ thisUpdate }) => thisUpdate.getTime() / 1000);
      latest = { crls, pem, sequence: Math.max(0, ...times) };
    }
    const isTooLong = latest.pem.length > maximumContentOctets;
    const why = isTooLong ? `they have more than ${maximumContentOctets} octets` : missing;
    if (why !== undefined && why !== told) tell(`no proxy gets CRLs: ${why}`);
    told = why;
    return isTooLong ? { pem: "", sequence: latest.sequence } : latest;
  };
}
