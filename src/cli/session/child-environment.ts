import { isSecretKey } from "../../config/configuration.ts";

/**
 * The environment for another program, such as a credential plugin of a kubeconfig, or wrangler: this
 * process's own, without the secrets of the CA.
 */
export function childEnvironment(
  own: NodeJS.ProcessEnv,
  more: Readonly<Record<string, string>> = {},
): NodeJS.ProcessEnv {
  const entries = Object.entries(own).filter(
    ([name]) => name !== "RAMPART_PASSPHRASE" && !isSecretKey(name),
  );
  return { ...Object.fromEntries(entries), ...more };
}
