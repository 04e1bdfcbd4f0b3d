import type { AgentParts } from "../agent-parts.ts";
import { parseFileResource } from "./file-resource.ts";
import { fileSecrets } from "./file-secrets.ts";
import { defaultResource, identitySecrets, rootResource, rootSecrets } from "./identity-secrets.ts";
import type { SecretSource } from "./secret-source.ts";

/** Every resource that an agent serves. A file takes precedence over a certificate or root of the agent. */
export function agentSecrets(parts: AgentParts): SecretSource {
  const { configuration, identities, own, trust, mounted } = parts;
  const fileOf = (name: string) => mounted.get(name) ?? parseFileResource(name);
  const files = fileSecrets(fileOf, {
    ...parts,
    debounceMilliseconds: configuration.fileDebounceMilliseconds,
  });
  const issued = identitySecrets(
    (name) => (name === defaultResource ? own : identities.find(name)),
    configuration.isPkcs8,
  );
  const roots = rootSecrets(trust, async () => own?.awaitSvid(), configuration.crlFile);
  const choose = (name: string): SecretSource =>
    fileOf(name) ? files : name === rootResource ? roots : issued;
  return {
    load: (name) => choose(name).load(name),
    watch: (name, onChange) => choose(name).watch(name, onChange),
  };
}
