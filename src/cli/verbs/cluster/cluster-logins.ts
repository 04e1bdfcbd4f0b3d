import { type Command, Option } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { type ClusterLogin, readKubeconfig } from "../../session/kubeconfig.ts";
import { issuerIn } from "./cluster-enrol.ts";

/** The clusters that the operator can reach as kubectl would. */
export interface LoginChoice {
  readonly kubeconfig?: string;
  readonly context?: readonly string[];
}

/** A login with the issuer that its API server names. */
export interface IdentifiedLogin extends ClusterLogin {
  readonly issuer: string | undefined;
  /** Why the issuer is not known. */
  readonly fault: string | undefined;
}

/** The options of verbs that inspect clusters. */
export function addLoginOptions(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "ask the cluster of this kubeconfig which roots it has")
    .addOption(
      new Option(
        "--context <names...>",
        "ask the clusters of these contexts, instead of the current one",
      ),
    );
}

/** The chosen logins; a kubeconfig is read only if one is chosen. @throws OperatorError */
export async function identifyLogins(
  { kubeconfig, context }: LoginChoice,
  environment: NodeJS.ProcessEnv,
): Promise<IdentifiedLogin[]> {
  if (kubeconfig === undefined && context === undefined) return [];
  const logins = (context ?? [undefined]).map((name) =>
    readKubeconfig(kubeconfig, name, environment),
  );
  return Promise.all((await Promise.all(logins)).map(identify));
}

async function identify(login: ClusterLogin): Promise<IdentifiedLogin> {
  try {
    const document = await login.read("/.well-known/openid-configuration");
    return { ...login, issuer: issuerIn(document), fault: undefined };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { ...login, issuer: undefined, fault: error.message };
  }
}
