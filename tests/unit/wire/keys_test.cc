#include "api/wire/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "net_testing.h"

namespace pillion::wire {
namespace {

TEST(Keys, FirstHeadMakesThemLaterOnesReadThem) {
  TemporaryDirectory directory;
  ServerKeys first = LoadOrCreateHeadKeys(directory.path()).value();
  ServerKeys second = LoadOrCreateHeadKeys(directory.path()).value();
  EXPECT_EQ(first.pair.secret_key, second.pair.secret_key);
  ASSERT_EQ(second.allowed.size(), 3u);
  for (const AllowedKey& key : second.allowed) {
    EXPECT_EQ(LoadKeys(directory.path(), key.role).value().public_key, key.public_key);
  }
  struct stat info;
  ASSERT_EQ(stat((directory.path() + "/head.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(Keys, RemovedLineStaysRemovedAndALostKeyIsMadeAnew) {
  TemporaryDirectory directory;
  LoadOrCreateHeadKeys(directory.path()).value();
  const std::string path = directory.path() + "/allowed.keys";
  const std::string worker = LoadKeys(directory.path(), Role::kWorker).value().public_key;
  ASSERT_TRUE(WriteFileDurably(path, "worker local " + worker + "\n", 0600).ok());
  EXPECT_EQ(LoadOrCreateHeadKeys(directory.path()).value().allowed.size(), 1u);
  ASSERT_EQ(unlink((directory.path() + "/client.key").c_str()), 0);
  ServerKeys keys = LoadOrCreateHeadKeys(directory.path()).value();
  ASSERT_EQ(keys.allowed.size(), 2u);
  EXPECT_EQ(keys.allowed[1].public_key, LoadClientKeys(directory.path()).value().public_key);
}

TEST(Keys, ReadableByOthersIsRefused) {
  TemporaryDirectory directory;
  LoadOrCreateHeadKeys(directory.path()).value();
  ASSERT_EQ(chmod((directory.path() + "/client.key").c_str(), 0644), 0);
  Status status = LoadClientKeys(directory.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("client.key"), std::string::npos);
}

TEST(Keys, AbsentAndDamagedFilesAreNamed) {
  TemporaryDirectory directory;
  EXPECT_EQ(LoadClientKeys(directory.path()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(ReadEndpoint(directory.path(), "head").status().code(), StatusCode::kUnavailable);
  LoadOrCreateHeadKeys(directory.path()).value();
  const std::string path = directory.path() + "/client.key";
  ASSERT_TRUE(WriteFileDurably(path, "public abc\nsecret def\n", 0600).ok());
  EXPECT_EQ(LoadClientKeys(directory.path()).status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(WriteFileDurably(EndpointPath(directory.path(), "head"), "address nowhere\n", 0600).ok());
  EXPECT_EQ(ReadEndpoint(directory.path(), "head").status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(WriteFileDurably(directory.path() + "/allowed.keys", "# fine\nking me x\n", 0600).ok());
  Status status = LoadOrCreateHeadKeys(directory.path()).status();
  EXPECT_NE(status.message().find("allowed.keys:2"), std::string::npos) << status.ToString();
}

TEST(Keys, AllowingAKeyTwiceSaysWhoHasIt) {
  TemporaryDirectory directory;
  LoadOrCreateHeadKeys(directory.path()).value();
  KeyPair pair = GenerateKeyPair().value();
  EXPECT_TRUE(AddAllowedKey(directory.path(), {Role::kWorker, "node7", pair.public_key}).ok());
  Status again = AddAllowedKey(directory.path(), {Role::kClient, "x", pair.public_key});
  EXPECT_EQ(again.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(again.message().find("node7"), std::string::npos);
  EXPECT_FALSE(AddAllowedKey(directory.path(), {Role::kClient, "two words", pair.public_key}).ok());
  EXPECT_EQ(LoadOrCreateHeadKeys(directory.path()).value().allowed.size(), 4u);
}

}  // namespace
}  // namespace pillion::wire
