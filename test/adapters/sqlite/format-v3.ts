// A data directory of schema 3 after a crash during a checkpoint: the tables are at epoch 4, the journal has entries of epochs 4
// and 5. Do not regenerate it with newer code: `format.test.ts` proves that existing directories still open.

/** The content of `cordum.db`. */
export const TABLES = `
CREATE TABLE records ( tbl text not null, id text not null, version integer not null, value text not null, due_ms integer, queue text, score integer );
CREATE UNIQUE INDEX records_id on records (tbl, id);
CREATE INDEX records_due on records (due_ms, tbl, id) where due_ms is not null;
CREATE INDEX records_queue on records (tbl, queue, score, id) where queue is not null;
CREATE TABLE lists ( tbl text not null, name text not null, score integer not null, id text not null, primary key (tbl, name, score, id) ) without rowid;
CREATE TABLE counters ( grp text not null, name text not null, value integer not null, primary key (grp, name) ) without rowid;
CREATE TABLE fences ( tbl text not null, id text not null, fence integer not null, at_ms integer not null, primary key (tbl, id) ) without rowid;
CREATE TABLE outbox ( id text primary key, at_ms integer not null, seq integer not null, subject text not null, packet text not null ) without rowid;
CREATE INDEX outbox_at on outbox (at_ms, seq);
CREATE TABLE bus_groups ( subject text not null, name text not null, primary key (subject, name) ) without rowid;
CREATE TABLE messages ( seq integer primary key, subject text not null, grp text not null, id text not null, packet text not null, attempt integer not null, visible_ms integer not null, at_ms integer not null );
CREATE UNIQUE INDEX messages_id on messages (subject, grp, id);
CREATE INDEX messages_visible on messages (subject, grp, visible_ms, seq);
CREATE TABLE blobs ( key text primary key, expires_ms integer not null, bytes blob not null );
CREATE INDEX blobs_expires on blobs (expires_ms);
CREATE TABLE sequences ( name text primary key, next integer not null ) without rowid;
CREATE TABLE journal (epoch integer not null);
insert into records values ('doc', 'a', 1, '{"text":"a text that is long enough for a change to be written as a line of its own, behind the documenta text that is long enough for a change to be written as a line of its own, behind the document","lists":[{"name":"new","score":1}],"queue":{"name":"q","score":1},"dueMs":1700000000001,"counters":[{"group":"slots","name":"new"}]}', 1700000000001, 'q', 1);
insert into records values ('doc', 'gone', 1, '{"text":"g","lists":[{"name":"new","score":2}],"queue":{"name":"q","score":2},"dueMs":1700000000002,"counters":[{"group":"slots","name":"new"}]}', 1700000000002, 'q', 2);
insert into lists values ('doc', 'new', 1, 'a');
insert into lists values ('doc', 'new', 2, 'gone');
insert into counters values ('
totals', 'started', 2);
insert into counters values ('slots', 'new', 2);
insert into fences values ('doc', 'a', 5, 1700000000000);
insert into outbox values ('m-kept', 1700000000000, 1, 'sys.job.submit', '{"traceId":"trace-m-kept","senderId":"contract","createdAtMs":1700000000000,"body":{"kind":"job_request","jobId":"m-kept","topic":"echo","input":{"text":"héllo","list":[1,null,true]}}}');
insert into outbox values ('m-sent', 1700000000000, 2, 'sys.job.submit', '{"traceId":"trace-m-sent","senderId":"contract","createdAtMs":1700000000000,"body":{"kind":"job_request","jobId":"m-sent","topic":"echo","input":{"text":"héllo","list":[1,null,true]}}}');
insert into bus_groups values ('sys.job.submit', 'scheduler');
insert into messages values (1, 'sys.job.result', '', 'orphan', '{"traceId":"trace-orphan","senderId":"contract","createdAtMs":1700000000456,"body":{"kind":"job_result","jobId":"orphan","status":"succeeded","workerId":"w-1","attempt":1,"output":{"ok":true}}}', 0, 1700000000000, 1700000000000);
insert into messages values (2, 'sys.job.submit', 'scheduler', 'delayed', '{"traceId":"trace-delayed","senderId":"contract","createdAtMs":1700000000123,"body":{"kind":"job_request","jobId":"delayed","topic":"contract.echo","priority":"batch","tenantId":"default","labels":{"suite":"contract","ü":"ö"},"attempt":1,"input":{"n":1,"text":"héllo","list":[1,null,true]},"deadlineMs":1700000900000}}', 1, 1700000060000, 1700000000000);
insert into blobs values ('ctx:1', 3400000000000, x'0001feff');
insert into sequences values ('fence', 100001);
insert into journal values (4);
pragma user_version = 3;
`;

/** `cordum.journal` from offset 0: epoch 4. */
export const FIRST_HALF = [
  "ee010000b3db91b70400000000005b5b226d6f7265222c22646f63222c2261222c322c313730303030303030303030332c22",
  "71222c332c5b226e6577222c315d2c5b2262757379222c335d2c0a7b2273223a7b2274657874223a22612074657874207468",
  "6174206973206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474656e206173206120",
  "6c696e65206f6620697473206f776e2c20626568696e642074686520646f63756d656e746120746578742074686174206973",
  "206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474656e2061732061206c696e6520",
  "6f6620697473206f776e2c20626568696e642074686520646f63756d656e7421222c226c69737473223a5b7b226e616d6522",
  "3a2262757379222c2273636f7265223a337d5d2c226475654d73223a313730303030303030303030332c22636f756e746572",
  "73223a5b7b2267726f7570223a22736c6f7473222c226e616d65223a2262757379227d5d7d2c2269223a7b22717565756522",
  "3a7b2273223a7b2273636f7265223a337d7d7d7d5d2c5b22636f756e74222c22736c6f7473222c226e6577222c315d2c5b22",
  "636f756e74222c22736c6f7473222c2262757379222c315d2c5b22636f756e74222c225c6e746f74616c73222c2273746172",
  "746564222c335d5d53000000e8575de70400000000005b5b22726f77222c22646f63222c22676f6e65222c302c6e756c6c2c",
  "6e756c6c2c6e756c6c2c5b226e6577222c325d2c5b5d2c6e756c6c5d2c5b22636f756e74222c22736c6f7473222c226e6577",
  "222c305d5de10000001d5885610400000000005b5b22726f77222c226e6f7465222c22625c225c5cc3bc5c6e222c312c6e75",
  "6c6c2c2271222c342c5b5d2c5b226c5c22697374222c375d2c7b2274657874223a226f6464206e616d6573222c226c697374",
  "73223a5b7b226e616d65223a226c5c22697374222c2273636f7265223a377d5d2c227175657565223a7b226e616d65223a22",
  "71222c2273636f7265223a347d2c22636f756e74657273223a5b7b2267726f7570223a22736c6f7473222c226e616d65223a",
  "22635c226f756e74227d5d7d5d2c5b22636f756e74222c22736c6f7473222c22635c226f756e74222c315d5d1b01000097f6",
  "fd5b0400000000005b5b2266656e6365222c22646f63222c2261222c372c313730303030303030303030305d2c5b2273656e",
  "64222c226d2d6a6f75726e616c222c313730303030303030303030302c332c227379732e6a6f622e7375626d6974222c7b22",
  "74726163654964223a2274726163652d6d2d6a6f75726e616c222c2273656e6465724964223a22636f6e7472616374222c22",
  "6372656174656441744d73223a313730303030303030303030302c22626f6479223a7b226b696e64223a226a6f625f726571",
  "75657374222c226a6f624964223a226d2d6a6f75726e616c222c22746f706963223a226563686f222c22696e707574223a7b",
  "2274657874223a2268c3a96c6c6f222c226c697374223a5b312c6e756c6c2c747275655d7d7d7d5d5d4a000000e5707c3304",
  "00000000005b5b2273656e74222c226d2d73656e74225d2c5b22726f77222c22646f63222c227831222c312c6e756c6c2c6e",
  "756c6c2c6e756c6c2c5b5d2c5b5d2c7b2274657874223a2231227d5d5d",
].join("");

/** `cordum.journal` from offset 4 MiB: epoch 5. */
export const SECOND_HALF = [
  "38000000418368570500000000005b5b22726f77222c22646f63222c227832222c312c6e756c6c2c6e756c6c2c6e756c6c2c",
  "5b5d2c5b5d2c7b2274657874223a2232227d5d5d38000000b6384cc50500000000005b5b22726f77222c22646f63222c2278",
  "33222c312c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c7b2274657874223a2233227d5d5d38000000f117518d0500",
  "000000005b5b22726f77222c22646f63222c227834222c312c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c7b227465",
  "7874223a2234227d5d5dd0010000e3508a050500000000005b5b226d6f7265222c22646f63222c2261222c332c3137303030",
  "30303030303030352c2271222c352c5b2262757379222c335d2c5b22646f6e65222c355d2c0a7b2273223a7b227465787422",
  "3a226120746578742074686174206973206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772",
  "697474656e2061732061206c696e65206f6620697473206f776e2c20626568696e642074686520646f63756d656e74612074",
  "6578742074686174206973206c6f6e6720656e6f75676820666f722061206368616e676520746f206265207772697474656e",
  "2061732061206c696e65206f6620697473206f776e2c20626568696e642074686520646f63756d656e742121222c226c6973",
  "7473223a5b7b226e616d65223a22646f6e65222c2273636f7265223a357d5d2c226475654d73223a31373030303030303030",
  "3030352c22636f756e74657273223a5b7b2267726f7570223a22736c6f7473222c226e616d65223a22646f6e65227d5d7d2c",
  "2269223a7b227175657565223a7b2273223a7b2273636f7265223a357d7d7d7d5d2c5b22636f756e74222c22736c6f747322",
  "2c2262757379222c305d2c5b22636f756e74222c22736c6f7473222c22646f6e65222c315d5d30000000d98a53b105000000",
  "00005b5b22726f77222c22646f63222c227831222c302c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c6e756c6c5d5d",
  "5e000000da6fad050500000000005b5b2273656e74222c226d2d6a6f75726e616c225d2c5b226d6f7265222c22646f63222c",
  "227832222c322c6e756c6c2c6e756c6c2c6e756c6c2c5b5d2c5b5d2c0a7b2273223a7b2274657874223a22322c206368616e",
  "676564227d7d5d5d",
].join("");
