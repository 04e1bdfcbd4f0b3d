/**
 * Runs a command as somebody does who has set up the shell for other work: every key of every configuration, and
 * every other variable that our source names, has a value that nothing can use.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { variableNames } from "../src/agent/configuration/environment.ts";
import { Configuration } from "../src/config/configuration.ts";
import { DistributeConfiguration } from "../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../src/node/signer/signer-configuration.ts";

const keys = [
  ...Configuration.keys,
  ...ServeConfiguration.keys,
  ...GatewayConfiguration.keys,
  ...DistributeConfiguration.keys,
  ...SignerConfiguration.keys,
  ...variableNames,
];

/** Whatever has the form of a variable's name: those of the CLI, of pilot-agent, of AWS. */
const named = globSync(join(import.meta.dirname, "../src/**/*.ts"))
  .filter((file) => !file.includes("/gen/"))
  .flatMap((file) => readFileSync(file, "utf8").match(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g) ?? []);

/** Read by wrangler, Kubernetes' clients and those of HTTP, and not by name in our source. */
const others = {
  CLOUDFLARE_ENV: "wrong",
  CLOUDFLARE_INCLUDE_PROCESS_ENV: "true",
  CLUSTER_CREDENTIAL_A: "wrong",
  CLUSTER_CREDENTIAL_A_FILE: "/wrong",
  CA_HEADER_wrong: "wrong",
  COLUMNS: "1",
  KUBECONFIG: "/wrong",
  http_proxy: "http://127.0.0.1:9",
  https_proxy: "http://127.0.0.1:9",
  HTTP_PROXY: "http://127.0.0.1:9",
  HTTPS_PROXY: "http://127.0.0.1:9",
  NODE_USE_ENV_PROXY: "1",
};

const wrong = Object.fromEntries([...keys, ...named].map((name) => [name, "%% wrong"]));
console.log(`${Object.keys({ ...wrong, ...others }).length} variables have a wrong value`);
const [program = "", ...values] = process.argv.slice(2);
const environment = { ...process.env, ...wrong, ...others };
const child = spawn(program, values, { env: environment, stdio: "inherit" });
const [exitCode] = await once(child, "exit");
process.exitCode = exitCode ?? 1;
