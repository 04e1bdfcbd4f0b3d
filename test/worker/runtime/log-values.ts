import { logOrigin, readerToken } from "../../contract/log/log-values.ts";

/** The keys about the log, with its inception today. */
export const logValues = {
  LOG_ORIGIN: logOrigin,
  LOG_INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  LOG_INTERVAL: "1h",
  LOG_READERS: readerToken,
};
