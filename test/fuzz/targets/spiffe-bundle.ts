import { X509Certificate } from "node:crypto";
import { parsePublishedRoots } from "../../../src/host/published-bundle.ts";
import { toSpiffeBundle } from "../../../src/pki/authority/spiffe-bundle.ts";
import type { NumberedBundle } from "../../../src/pki/authority/trust-bundle.ts";
import { rootCertificates } from "../corpus/certificates.ts";
import { mutateJson } from "../mutation/json.ts";
import { requireThat, type Target } from "./target.ts";

const intact = await toSpiffeBundle(rootCertificates, 7, 300);

/** A SPIFFE bundle as a CA, or who stands in for it, publishes it. */
export const spiffeBundle: Target = {
  generate: (random) => Buffer.from(mutateJson(random, intact)),
  judge: async (octets) => {
    const json = parsedJson(octets.toString());
    if (json === undefined) return "not JSON";
    const read = bundleOrUndefined(json);
    if (!read) return "refused";
    const published = json as typeof intact;
    requireThat(read.sequence === published.spiffe_sequence, "read another sequence number");
    const roots = read.pem.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g) ?? [];
    requireThat(roots.length > 0, "accepted a bundle without a root");
    const offered = new Set(published.keys.map(({ x5c }) => x5c?.[0]));
    for (const root of roots.map((pem) => new X509Certificate(pem))) {
      requireThat(root.ca, "took a root that is no CA");
      requireThat(
        offered.has(root.raw.toString("base64") as never),
        "took a root that nobody published",
      );
    }
    return `${roots.length} roots`;
  },
};

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A refusal is a plain Error, here and of OpenSSL. Errors of the language are faults. */
function bundleOrUndefined(json: unknown): NumberedBundle | undefined {
  try {
    return parsePublishedRoots(json);
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw error;
    return undefined;
  }
}
