import { expect, test } from "vitest";
import { createBundleFollower } from "../../src/host/bundle-follower.ts";
import { startCa } from "../testkit/ca/running-ca.ts";
import { createEventRecorder } from "../testkit/event-recorder.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";

test.each(["3000000", "5000000", "9".repeat(30)])(
  "a CA that says it would hold its answers for %s s is asked again all the same",
  async (seconds) => {
    const ca = await startCa();
    await ca.found();
    const { origin } = await startLoopbackServer(async ({ url = "", headers }, response) => {
      const { "if-none-match": etag } = headers;
      const asked = etag === undefined ? {} : { "if-none-match": etag };
      const answer = await ca.app.request(url, { headers: asked });
      const held = {
        ...Object.fromEntries(answer.headers),
        "preference-applied": `wait=${seconds}`,
      };
      response.writeHead(answer.status, held).end(await answer.text());
    });
    const log = createEventRecorder();
    const follower = await createBundleFollower(origin, undefined, log, () => new Date());
    const { signal } = new AbortController();
    for (let look = 0; look < 3; look++) await follower.look(signal);
    expect(follower.current()?.pem).toContain("BEGIN CERTIFICATE");
  },
);
