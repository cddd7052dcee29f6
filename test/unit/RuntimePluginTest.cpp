// SPDX-License-Identifier: Apache-2.0
//
// Device plugins: the working one trains, the others are refused with an exact reason.
#include "runtime/Plugin.h"
#include "runtime/Trainer.h"
#include "tools/Devices.h"

#include "test/unit/RuntimeModel.h"

#include <gtest/gtest.h>

using namespace ds;

namespace {

std::string path(const char *name) { return std::string(DS_TEST_PLUGINS) + "/lib" + name + ".so"; }

std::string errorOf(const char *name) {
  auto p = loadPlugin(path(name));
  return p.ok() ? "" : p.status().str();
}

TEST(RuntimePlugin, AKernelOfAPluginRuns) {
  auto d = pluginDevice(path("dsdummy"));
  ASSERT_TRUE(d.ok()) << d.status().str();
  EXPECT_EQ(d->name, "dummy");
  RunOptions o;
  o.data = "synthetic:1";
  auto mixed = Trainer::create(test::makeMlp(2, 1, 3), *d, o);
  auto plain = Trainer::create(test::makeMlp(2, 1, 3), test::refDevice(), o);
  ASSERT_TRUE(mixed.ok() && plain.ok()) << mixed.status().str();
  EXPECT_TRUE((*plain)->notes().empty());
  ASSERT_EQ((*mixed)->notes().size(), 1u);
  EXPECT_EQ(
      (*mixed)->notes()[0],
      "device dummy takes from ref: matmul on f32, mse on f32, mse_grad on f32, relu_grad on f32, "
      "pack on f32, accumulate on f32, sum_squares on f32, clip_factor on i64, adam on f32, "
      "advance on f64");
  auto a = (*mixed)->step(), b = (*plain)->step();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->loss, b->loss);
}

TEST(RuntimePlugin, WrongOnesAreRefused) {
  EXPECT_EQ(errorOf("dsoldabi"), path("dsoldabi") + ": error: has plugin ABI 999, expected " +
                                     std::to_string(DS_ABI) + "\n");
  EXPECT_EQ(errorOf("dsotherbuild"), path("dsotherbuild") +
                                         ": error: comes from build 'elsewhere', expected '" +
                                         DS_BUILD + "'\n");
  EXPECT_EQ(errorOf("dsnoentry"),
            path("dsnoentry") +
                ": error: is no device plugin: the symbol ds_plugin_entry is missing\n");
  EXPECT_NE(errorOf("dsrefuses").find("refuses to serve ABI"), std::string::npos);
  EXPECT_NE(errorOf("dsmissing").find("cannot load the plugin"), std::string::npos);
}

TEST(RuntimePlugin, UnknownDevicesAreNamed) {
  auto d = findDevice("tpu");
  ASSERT_FALSE(d.ok());
  EXPECT_NE(d.status().str().find("libdstpu.so: error: cannot load the plugin"), std::string::npos);
  EXPECT_FALSE(findDevice("../x").ok());
}

} // namespace
