import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { runWell, startChild } from "../../testkit/programs/child-process.ts";
import { succeeds, until } from "../../testkit/time/until.ts";

/** A foreign trust domain, `other.test`, whose JWT-SVIDs name an issuer. */
export type Spire = Awaited<ReturnType<typeof startSpire>>;

/** @param federation Further blocks of its configuration. */
export async function startSpire(program: string, parent: string, federation = "") {
  const folder = join(parent, "spire");
  const [port = 0] = await freePorts(1);
  await mkdir(folder);
  const [file, socket] = [join(folder, "server.conf"), join(folder, "api.sock")];
  await writeFile(file, configurationOf(folder, socket, port, federation));
  const server = startChild(program, ["run", "-config", file]);
  const ask = (...words: readonly string[]): Promise<string> =>
    runWell(program, [...words, "-socketPath", socket]);
  await until("SPIRE does not answer", () => succeeds(ask("healthcheck")));
  return {
    /** Runs a command of its server. */
    ask,
    mint: async (spiffeId: string, audiences: readonly string[]): Promise<string> => {
      const named = audiences.flatMap((each) => ["-audience", each]);
      return (await ask("jwt", "mint", "-spiffeID", spiffeId, ...named)).trim();
    },
    /** Its bundle, as its endpoint publishes it: roots and keys for tokens beside each other. */
    bundle: () => ask("bundle", "show", "-format", "spiffe"),
    end: async () => void (await server.end()),
  };
}

const configurationOf = (
  folder: string,
  socket: string,
  port: number,
  federation: string,
): string => `server {
  bind_address = "127.0.0.1"
  bind_port = "${port}"
  socket_path = "${socket}"
  trust_domain = "other.test"
  data_dir = "${folder}"
  jwt_issuer = "https://oidc.other.test"
${federation}}
plugins {
  DataStore "sql" {
    plugin_data {
      database_type = "sqlite3"
      connection_string = "${join(folder, "datastore.sqlite3")}"
    }
  }
  NodeAttestor "join_token" {
    plugin_data {}
  }
  KeyManager "memory" {
    plugin_data {}
  }
}
`;
