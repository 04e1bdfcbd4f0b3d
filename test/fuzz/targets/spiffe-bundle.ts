import { FetchError } from "../../../src/foundation/fetch.ts";
import { toSpiffeBundle } from "../../../src/pki/authority/spiffe-bundle.ts";
import { parseSpiffeBundle } from "../../../src/program/bundle/spiffe-bundle.ts";
import { rootCertificates } from "../corpus/certificates.ts";
import { mutateJson } from "../mutation/json.ts";
import { requireThat, type Target, unlessRefused } from "./target.ts";

const intact = await toSpiffeBundle(rootCertificates, 7, 300);

/** A SPIFFE bundle as a CA, or an impostor in its place, publishes it. */
export const spiffeBundle: Target = {
  generate: (random) => Buffer.from(mutateJson(random, intact)),
  judge: async (octets) => {
    const text = octets.toString();
    const read = await unlessRefused(() => parseSpiffeBundle(text), FetchError);
    if (!read) return "refused";
    const published = JSON.parse(text) as typeof intact;
    const sequence = published.spiffe_sequence ?? 0;
    requireThat(read.sequence === sequence, "read another sequence number");
    const entries = published.keys.filter(({ use, x5c }) => use === "x509-svid" && x5c);
    requireThat(read.roots.length === entries.length, "took another number of roots");
    for (const [i, root] of read.roots.entries()) {
      requireThat(root.ca, "took a root that is no CA");
      const [offered] = entries[i]?.x5c ?? [];
      requireThat(root.raw.toString("base64") === offered, "took a root that nobody published");
    }
    return `${read.roots.length} roots`;
  },
};
