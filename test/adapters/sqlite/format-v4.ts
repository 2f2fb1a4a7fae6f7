// A data directory of schema 4 after a crash during a checkpoint: the tables are at epoch 9, the journal has entries of epochs 9
// and 10. Do not regenerate it with newer code: `format.test.ts` proves that existing directories still open.

/** The content of `cordum.db`. */
export const TABLES = `
CREATE TABLE records ( tbl text not null, id text not null, version integer not null, value text not null, due_ms integer, queue text, score integer , value_sum integer, sum integer);
CREATE UNIQUE INDEX records_id on records (tbl, id);
CREATE INDEX records_due on records (due_ms, tbl, id) where due_ms is not null;
CREATE INDEX records_queue on records (tbl, queue, score, id) where queue is not null;
CREATE TABLE lists ( tbl text not null, name text not null, score integer not null, id text not null, sum integer, primary key (tbl, name, score, id) ) without rowid;
CREATE TABLE counters ( grp text not null, name text not null, value integer not null, sum integer, primary key (grp, name) ) without rowid;
CREATE TABLE fences ( tbl text not null, id text not null, fence integer not null, at_ms integer not null, sum integer, primary key (tbl, id) ) without rowid;
CREATE TABLE outbox ( id text primary key, at_ms integer not null, seq integer not null, subject text not null, packet text not null , sum integer) without rowid;
CREATE INDEX outbox_at on outbox (at_ms, seq);
CREATE TABLE bus_groups ( subject text not null, name text not null, sum integer, primary key (subject, name) ) without rowid;
CREATE TABLE messages ( seq integer primary key, subject text not null, grp text not null, id text not null, packet text not null, attempt integer not null, visible_ms integer not null, at_ms integer not null , sum integer);
CREATE UNIQUE INDEX messages_id on messages (subject, grp, id);
CREATE INDEX messages_visible on messages (subject, grp, visible_ms, seq);
CREATE TABLE blobs ( key text primary key, expires_ms integer not null, bytes blob not null , sum integer);
CREATE INDEX blobs_expires on blobs (expires_ms);
CREATE TABLE sequences ( name text primary key, next integer not null , sum integer) without rowid;
CREATE TABLE journal (epoch integer not null, directory text, sum integer);
insert into records values ('doc', 'a', 1, '{"text":"a text that is long enough for a change to be written as a line of its own, behind the documenta text that is long enough for a change to be written as a line of its own, behind the document","lists":[{"name":"new","score":1}],"queue":{"name":"q","score":1},"dueMs":1700000000001,"counters":[{"group":"slots","name":"new"}]}', 1700000000001, 'q', 1, 2931117164, 1547112179);
insert into records values ('doc', 'gone', 1, '{"text":"g","lists":[{"name":"new","score":2}],"queue":{"name":"q","score":2},"dueMs":1700000000002,"counters":[{"group":"slots","name":"new"}]}', 1700000000002, 'q', 2, 2934511595, 1397675530);
insert into lists values ('doc', 'new', 1, 'a', 1908940333);
insert into lists values ('doc', 'new', 2, 'gone', 2801344102);
insert into counters values ('
totals', 'started', 2, 1893352776);
insert into counters values ('slots', 'new', 2, 3996528431);
insert into fences values ('doc', 'a', 5, 1700000000000, 842138419);
insert into outbox values ('m-kept', 1700000000000, 1, 'sys.job.submit', '{"traceId":"trace-m-kept","senderId":"contract","createdAtMs":1700000000000,"body":{"kind":"job_request","jobId":"m-kept","topic":"echo","input":{"text":"héllo","list":[1,null,true]}}}', 4186525949);
insert into outbox values ('m-sent', 1700000000000, 2, 'sys.job.submit', '{"traceId":"trace-m-sent","senderId":"contract","createdAtMs":1700000000000,"body":{"kind":"job_request","jobId":"m-sent","topic":"echo","input":{"text":"héllo","list":[1,null,true]}}}', 3094152073);
insert into bus_groups values ('sys.job.submit', 'scheduler', 2370251234);
insert into messages values (1, 'sys.job.result', '', 'orphan', '{"traceId":"trace-orphan","senderId":"contract","createdAtMs":1700000000456,"body":{"kind":"job_result","jobId":"orphan","status":"succeeded","workerId":"w-1","attempt":1,"output":{"ok":true}}}', 0, 1700000000000, 1700000000000, 1911335724);
insert into messages values (2, 'sys.job.submit', 'scheduler', 'delayed', '{"traceId":"trace-delayed","senderId":"contract","createdAtMs":1700000000123,"body":{"kind":"job_request","jobId":"delayed","topic":"contract.echo","priority":"batch","tenantId":"default","labels":{"suite":"contract","ü":"ö"},"attempt":1,"input":{"n":1,"text":"héllo","list":[1,null,true]},"deadlineMs":1700000900000}}', 1, 1700000000000, 1700000000000, 627295667);
insert into blobs values ('ctx:1', 3400000000000, x'0001feff', 3404229043951);
insert into sequences values ('fence', 100001, 3174371133);
insert into journal values (9, '719639a1aed26385900a3c2df2f2490f', 167685540);
pragma user_version = 4;
`;

/** `cordum.manifest`. */
export const MANIFEST =
  "636f7264756d0a31719639a1aed26385900a3c2df2f2490f0900000000000a00000000008a134000f5140000000000000000000000000000000000006918931c";

/** The first page of `cordum.journal`, without the zeros before its last four bytes. */
export const PAGE = {
  start: "636f7264756d206a6f75726e616c20340a719639a1aed26385900a3c2df2f2490f",
  end: "a567361d",
} as const;

/** `cordum.journal` from offset 4,096: epoch 9. */
export const FIRST_HALF = [
  "ee0100009089cc4109000000000000100000000000005b5b226d6f7265222c22646f63222c2261222c322c31373030303030",
  "3030303030332c2271222c332c5b226e6577222c315d2c5b2262757379222c335d2c0a7b2273223a7b2274657874223a2261",
  "20746578742074686174206973206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474",
  "656e2061732061206c696e65206f6620697473206f776e2c20626568696e642074686520646f63756d656e74612074657874",
  "2074686174206973206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474656e206173",
  "2061206c696e65206f6620697473206f776e2c20626568696e642074686520646f63756d656e7421222c226c69737473223a",
  "5b7b226e616d65223a2262757379222c2273636f7265223a337d5d2c226475654d73223a313730303030303030303030332c",
  "22636f756e74657273223a5b7b2267726f7570223a22736c6f7473222c226e616d65223a2262757379227d5d7d2c2269223a",
  "7b227175657565223a7b2273223a7b2273636f7265223a337d7d7d7d5d2c5b22636f756e74222c22736c6f7473222c226e65",
  "77222c315d2c5b22636f756e74222c22736c6f7473222c2262757379222c315d2c5b22636f756e74222c225c6e746f74616c",
  "73222c2273746172746564222c335d5d53000000c0ec66ba09000000000004120000000000005b5b22726f77222c22646f63",
  "222c22676f6e65222c302c6e756c6c2c6e756c6c2c6e756c6c2c5b226e6577222c325d2c5b5d2c6e756c6c5d2c5b22636f75",
  "6e74222c22736c6f7473222c226e6577222c305d5de10000003c0edef40900000000006d120000000000005b5b22726f7722",
  "2c226e6f7465222c22625c225c5cc3bc5c6e222c312c6e756c6c2c2271222c342c5b5d2c5b226c5c22697374222c375d2c7b",
  "2274657874223a226f6464206e616d6573222c226c69737473223a5b7b226e616d65223a226c5c22697374222c2273636f72",
  "65223a377d5d2c227175657565223a7b226e616d65223a2271222c2273636f7265223a347d2c22636f756e74657273223a5b",
  "7b2267726f7570223a22736c6f7473222c226e616d65223a22635c226f756e74227d5d7d5d2c5b22636f756e74222c22736c",
  "6f7473222c22635c226f756e74222c315d5d1b01000003fe725809000000000064130000000000005b5b2266656e6365222c",
  "22646f63222c2261222c372c313730303030303030303030305d2c5b2273656e64222c226d2d6a6f75726e616c222c313730",
  "303030303030303030302c332c227379732e6a6f622e7375626d6974222c7b2274726163654964223a2274726163652d6d2d",
  "6a6f75726e616c222c2273656e6465724964223a22636f6e7472616374222c226372656174656441744d73223a3137303030",
  "30303030303030302c22626f6479223a7b226b696e64223a226a6f625f72657175657374222c226a6f624964223a226d2d6a",
  "6f75726e616c222c22746f706963223a226563686f222c22696e707574223a7b2274657874223a2268c3a96c6c6f222c226c",
  "697374223a5b312c6e756c6c2c747275655d7d7d7d5d5d4a0000002157791509000000000095140000000000005b5b227365",
  "6e74222c226d2d73656e74225d2c5b22726f77222c22646f63222c227831222c312c6e756c6c2c6e756c6c2c6e756c6c2c5b",
  "5d2c5b5d2c7b2274657874223a2231227d5d5d",
].join("");

/** `cordum.journal` from offset 4 MiB + 4,096: epoch 10. */
export const SECOND_HALF = [
  "38000000ad0d37b10a000000000000104000f51400005b5b22726f77222c22646f63222c227832222c312c6e756c6c2c6e75",
  "6c6c2c6e756c6c2c5b5d2c5b5d2c7b2274657874223a2232227d5d5d380000003ff4ec010a00000000004e104000f5140000",
  "5b5b22726f77222c22646f63222c227833222c312c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c7b2274657874223a",
  "2233227d5d5d38000000d71df02e0a00000000009c104000f51400005b5b22726f77222c22646f63222c227834222c312c6e",
  "756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c7b2274657874223a2234227d5d5dd0010000dab0cae20a0000000000ea10",
  "4000f51400005b5b226d6f7265222c22646f63222c2261222c332c313730303030303030303030352c2271222c352c5b2262",
  "757379222c335d2c5b22646f6e65222c355d2c0a7b2273223a7b2274657874223a226120746578742074686174206973206c",
  "6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474656e2061732061206c696e65206f66",
  "20697473206f776e2c20626568696e642074686520646f63756d656e746120746578742074686174206973206c6f6e672065",
  "6e6f75676820666f722061206368616e676520746f206265207772697474656e2061732061206c696e65206f662069747320",
  "6f776e2c20626568696e642074686520646f63756d656e742121222c226c69737473223a5b7b226e616d65223a22646f6e65",
  "222c2273636f7265223a357d5d2c226475654d73223a313730303030303030303030352c22636f756e74657273223a5b7b22",
  "67726f7570223a22736c6f7473222c226e616d65223a22646f6e65227d5d7d2c2269223a7b227175657565223a7b2273223a",
  "7b2273636f7265223a357d7d7d7d5d2c5b22636f756e74222c22736c6f7473222c2262757379222c305d2c5b22636f756e74",
  "222c22736c6f7473222c22646f6e65222c315d5d300000009c8aad230a0000000000d0124000f51400005b5b22726f77222c",
  "22646f63222c227831222c302c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c6e756c6c5d5d5e00000059cf35260a00",
  "0000000016134000f51400005b5b2273656e74222c226d2d6a6f75726e616c225d2c5b226d6f7265222c22646f63222c2278",
  "32222c322c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c0a7b2273223a7b2274657874223a22322c206368616e6765",
  "64227d7d5d5d",
].join("");
