import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { fromGoModule, required } from "../software.ts";

/** An auditor in Go with x/mod, which shares no code with the log, and every checkpoint that anybody was shown. */
export class LogAuditor {
  readonly #program: string;
  readonly #folder: string;
  readonly #token: string;
  readonly #seen = new Map<string, Set<string>>();

  private constructor(program: string, folder: string, token: string) {
    this.#program = program;
    this.#folder = folder;
    this.#token = token;
  }

  /** @param token That of a reader of the log. */
  static async build(folder: string, token: string): Promise<LogAuditor> {
    const module = join(import.meta.dirname, "../log/reader");
    return new LogAuditor(await required(fromGoModule(module, "log-reader")), folder, token);
  }

  get checkpoints(): number {
    return [...this.#seen.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Keeps what the log shows now. @param url That of its list, without its name. */
  async keepCheckpoints(url: string, shards: number): Promise<void> {
    for (let shard = 0; shard < shards; shard++) {
      const text = await this.#read(`${url}/${shard}/checkpoint`);
      if (text === undefined) continue;
      const texts = this.#seen.get(`${shard}`) ?? new Set();
      this.#seen.set(`${shard}`, texts.add(text));
    }
  }

  /**
   * Waits until the log has what was answered: the shard of a lost process is left to another.
   *
   * @param answered The DER of certificates, in base64.
   * @param publish Has the platform publish, where nothing does by itself.
   */
  async untilLogged(
    url: string,
    shards: number,
    answered: ReadonlySet<string>,
    publish: () => Promise<unknown> = async () => {},
  ): Promise<string> {
    let entries: string[] = [];
    await until(
      "every answered certificate is published",
      async () => {
        await publish();
        entries = await this.#entries(url, shards);
        const logged = new Set(entries);
        assert.equal(entries.length - logged.size, 0, "certificates that are logged twice");
        return [...answered].every((each) => logged.has(each));
      },
      240,
    );
    return `0 lost and 0 doubled of ${entries.length} entries in ${shards} shards`;
  }

  /** The certificates of all shards but for the authorities, which each shard has. */
  async #entries(url: string, shards: number): Promise<string[]> {
    const list = JSON.parse((await this.#read(`${url}/logs.json`)) ?? "[]");
    assert.equal(list.length, shards);
    const entries: string[] = [];
    for (const { shard, verifierKey } of list) {
      const lines = (await this.#audit(shard, verifierKey, `${url}/${shard}`)).trimEnd();
      for (const line of lines.split("\n").filter((each) => each !== "")) {
        const entry = LogEntry.parse(new Uint8Array(Buffer.from(line, "base64")));
        if (!("proof" in entry && entry.proof === "authority"))
          entries.push(Buffer.from(LogEntry.certificateOf(entry) ?? []).toString("base64"));
      }
    }
    return entries;
  }

  /** @throws Error unless the entries make every checkpoint that was kept, and the newest. */
  async #audit(shard: string, verifierKey: string, prefix: string): Promise<string> {
    const file = join(this.#folder, `checkpoints-${shard}`);
    const lines = [...(this.#seen.get(shard) ?? [])].map((text) => `${JSON.stringify(text)}\n`);
    await writeFile(file, lines.join(""));
    return runWell(this.#program, ["audit", prefix, this.#token, verifierKey, file]);
  }

  async #read(url: string): Promise<string | undefined> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const response = await fetch(url, { headers }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    return response?.ok ? text : undefined;
  }
}
