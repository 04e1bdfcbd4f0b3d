import { Configuration } from "../config/configuration.ts";
import { Secrets } from "../config/secrets.ts";
import { ConfigurationError } from "../foundation/errors.ts";

/** Variables, secrets and bindings of the Worker, unchecked. */
export type Environment = Readonly<Record<string, unknown>>;

/** Whether a binding has a member, and so is of a kind. A name that is not bound is `undefined`. */
export const isBinding = <Kind>(binding: unknown, member: keyof Kind & string): binding is Kind =>
  typeof binding === "object" && binding !== null && member in binding;

/**
 * The configuration keys of an environment, unchecked: known keys with any value, and any other text or list under an
 * upper-case name, so that a mistake is noticed. Other bindings, which are objects, are left out.
 */
export function variablesOf(environment: Environment): Record<string, unknown> {
  const variables = Object.entries(environment).filter(
    ([name, value]) =>
      Configuration.keys.includes(name) || (/^[A-Z]/.test(name) && isWritten(value)),
  );
  return Object.fromEntries(variables);
}

/** A secret could not be read now. The next event tries again. */
export class StoredSecretError extends ConfigurationError {}

/**
 * The environment with the texts of the secrets that are bindings of Cloudflare's Secrets Store. Without such a
 * binding, it is the same environment.
 *
 * @throws StoredSecretError
 */
export async function withStoredSecrets(environment: Environment): Promise<Environment> {
  const stored = Object.entries(environment).filter(
    (entry): entry is [string, StoredSecret] =>
      Secrets.has(entry[0]) && isBinding<StoredSecret>(entry[1], "get"),
  );
  if (stored.length === 0) return environment;
  const texts = stored.map(async ([name, secret]): Promise<[string, string]> => {
    try {
      return [name, await secret.get()];
    } catch {
      throw new StoredSecretError([`${name}: the Secrets Store does not give it`]);
    }
  });
  return { ...environment, ...Object.fromEntries(await Promise.all(texts)) };
}

/** A binding of the Secrets Store. */
interface StoredSecret {
  get(): Promise<string>;
}

const isWritten = (value: unknown): boolean => typeof value !== "object" || Array.isArray(value);

/**
 * The handlers that the platform calls. The type has a place of its own, because the package's declarations export
 * it.
 */
export interface Worker {
  readonly fetch: (request: Request, environment: Environment) => Promise<Response>;
  /** Runs the cron, whatever its cron string. A throw shows as a failed run. */
  readonly scheduled: (event: ScheduledController, environment: Environment) => Promise<void>;
}
