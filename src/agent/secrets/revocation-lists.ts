import { OperatorError } from "../../foundation/operator-error.ts";
import { readSmallFile } from "../../host/files/small-file.ts";
import { systemCode } from "../../host/files/system-code.ts";
import { type FileSecretPorts, watchFile } from "./file-secrets.ts";
import { rootResource } from "./identity-secrets.ts";
import type { SecretSource } from "./secret-source.ts";

/** A list of a million revoked certificates has about forty of these. */
const maximumOctets = 64 << 20;

const list = /-----BEGIN X509 CRL-----\s+[A-Za-z0-9+/=\s]+-----END X509 CRL-----/;

/**
 * Adds the certificate revocation lists in a file to the roots of the agent's trust domain. Roots of other files
 * get none: Envoy refuses every certificate of an authority without a list, once there is one.
 *
 * Each load looks at the file anew. A missing or empty file revokes nothing, as in Istio. A load fails while the
 * file holds anything else, so that a proxy keeps the lists that it has.
 */
export function withRevocationLists(
  source: SecretSource,
  file: string,
  ports: FileSecretPorts,
): SecretSource {
  return {
    async load(name) {
      const secret = await source.load(name);
      if (name !== rootResource || secret.kind !== "roots") return secret;
      const crlPem = await readLists(file);
      return crlPem === "" ? secret : { ...secret, crlPem };
    },
    watch(name, onChange) {
      const unwatch = source.watch(name, onChange);
      if (name !== rootResource) return unwatch;
      const unwatchFile = watchFile(file, onChange, ports);
      return () => {
        unwatch();
        unwatchFile();
      };
    },
  };
}

async function readLists(file: string): Promise<string> {
  const text = await readSmallFile(file, maximumOctets).catch((error: unknown) => {
    if (error instanceof OperatorError && systemCode(error.cause) === "ENOENT") return "";
    throw error;
  });
  if (text.trim() === "") return "";
  if (list.test(text)) return text;
  throw new OperatorError(`${file} holds no certificate revocation list`);
}
