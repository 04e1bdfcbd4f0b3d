import { type Command, Option } from "commander";
import { OperatorError } from "../../foundation/operator-error.ts";
import { issuerIn } from "./cluster-enrol.ts";
import { type ClusterLogin, defaultKubeconfig, readKubeconfig } from "./kubeconfig.ts";

/** Which clusters the operator can reach, as kubectl would. */
export interface LoginChoice {
  readonly kubeconfig?: string;
  readonly context?: readonly string[];
}

/** A login, and whose it is as far as it says. */
export interface KnownLogin extends ClusterLogin {
  readonly issuer: string | undefined;
  /** Why it does not say. */
  readonly fault: string | undefined;
}

/** The options of verbs that look at what clusters have. */
export function addLoginOptions(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "ask the cluster of this file what it has of the roots")
    .addOption(
      new Option(
        "--context <names...>",
        "the clusters of these contexts, instead of the current one's",
      ),
    );
}

/** The logins that were asked for; no file is looked into unless it was. @throws OperatorError */
export async function knownLogins({ kubeconfig, context }: LoginChoice): Promise<KnownLogin[]> {
  if (kubeconfig === undefined && context === undefined) return [];
  const path = kubeconfig ?? defaultKubeconfig();
  const logins = (context ?? [undefined]).map((name) => readKubeconfig(path, name));
  return Promise.all((await Promise.all(logins)).map(know));
}

async function know(login: ClusterLogin): Promise<KnownLogin> {
  try {
    const document = await login.read("/.well-known/openid-configuration");
    return { ...login, issuer: issuerIn(document), fault: undefined };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { ...login, issuer: undefined, fault: error.message };
  }
}
