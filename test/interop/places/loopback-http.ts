import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";

/** A server of JSON on this machine. An empty answer is a 404. */
export function startLoopbackHttp(
  answer: (method: string, url: string, body: string) => string,
): Promise<{ readonly host: string; readonly close: () => Promise<void> }> {
  return listenOnLoopback(
    createServer(async (request, response) => {
      const { method = "", url = "" } = request;
      const said = answer(method, url, await text(request));
      // A watch goes on until its client leaves.
      if (url.includes("watch=1")) response.writeHead(200).flushHeaders();
      else
        response
          .writeHead(said === "" ? 404 : 200, { "content-type": "application/json" })
          .end(said);
    }),
  );
}
