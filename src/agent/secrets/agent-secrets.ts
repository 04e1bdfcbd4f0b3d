import type { AgentParts } from "../agent-parts.ts";
import { parseFileResource } from "./file-resource.ts";
import { fileSecrets } from "./file-secrets.ts";
import { defaultResource, identitySecrets, rootResource, rootSecrets } from "./identity-secrets.ts";
import { withRevocationLists } from "./revocation-lists.ts";
import type { SecretSource } from "./secret-source.ts";

/** The parts of an agent that its secrets come from. */
export type SecretParts = Pick<
  AgentParts,
  "configuration" | "identities" | "own" | "trust" | "revocation" | "mounted" | "log" | "metrics"
>;

/** Every resource that an agent serves. A file takes precedence over a certificate or root of the agent. */
export function agentSecrets(parts: SecretParts): SecretSource {
  const { configuration, identities, own, trust, mounted } = parts;
  const fileOf = (name: string) => mounted.find(name) ?? parseFileResource(name);
  const filePorts = { ...parts, debounceMilliseconds: configuration.fileDebounceMilliseconds };
  const files = fileSecrets(fileOf, filePorts);
  const issued = identitySecrets(
    (name) => (name === defaultResource ? own : identities.find(name)),
    configuration.isPkcs8,
  );
  const roots = rootSecrets(trust, async () => own?.awaitSvid());
  const choose = (name: string): SecretSource =>
    fileOf(name) ? files : name === rootResource ? roots : issued;
  const plain: SecretSource = {
    load: (name) => choose(name).load(name),
    watch(name, onChange) {
      if (parseFileResource(name)) return files.watch(name, onChange);
      // Files may be mounted over the resource at any time.
      const unsubscribe = mounted.changes.add(onChange);
      const unwatch = (name === rootResource ? roots : issued).watch(name, onChange);
      return () => {
        unsubscribe();
        unwatch();
      };
    },
  };
  return withRevocationLists(plain, parts.revocation, configuration.crlFile, filePorts);
}
